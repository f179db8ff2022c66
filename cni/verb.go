package cni

// Verb is an operation of the specification, the value of CNI_COMMAND.
type Verb string

// The operations of the specification.
const (
	VerbAdd     Verb = "ADD"
	VerbDel     Verb = "DEL"
	VerbCheck   Verb = "CHECK"
	VerbGC      Verb = "GC"
	VerbStatus  Verb = "STATUS"
	VerbVersion Verb = "VERSION"
)

// Since returns the specification version that brought the verb; "" if it is none of the
// specification's.
func (v Verb) Since() string {
	switch v {
	case VerbAdd, VerbDel:
		return "0.1.0"
	case VerbVersion:
		return "0.2.0"
	case VerbCheck:
		return "0.4.0"
	case VerbGC, VerbStatus:
		return "1.1.0"
	}
	return ""
}
