package netstate

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Schema is the number of the form in which this release leaves its state for the next one: names and marks in the kernel, tables,
// records. A release reads the form before its own, and leaves alone what is of a later one ([ErrNewer]). docs/upgrade.md says
// when it is raised, and what need not raise it.
const Schema = 1

// ErrNewer is in the error for state of a later schema than this program knows: it is left as it is, since what belongs to it is not known.
var ErrNewer = errors.New("made by a later release of Cleat")

// CheckSchema returns an [ErrNewer] if state is of a later schema than the one known.
func CheckSchema(have, known int) error {
	if have <= known {
		return nil
	}
	return fmt.Errorf("%w: its state has schema %d, and this one knows up to %d", ErrNewer, have, known)
}

// schemaPrefix begins a comment of schema 2 and later: cleat/2 <mark> <names>.
const schemaPrefix = "cleat/"

// CommentOf is [Owner.Comment] in the form of a schema, 0 for [Schema].
func (o Owner) CommentOf(schema, max int) string {
	if schema == 0 {
		schema = Schema
	}
	if schema == 1 {
		return o.Comment(max)
	}
	prefix := schemaPrefix + strconv.Itoa(schema) + " "
	return prefix + o.Comment(max-len(prefix))
}

// SchemaOf is the schema of a comment, and the rest of it: 1 for one that doesn't say.
func SchemaOf(comment string) (schema int, rest string) {
	number, ok := strings.CutPrefix(comment, schemaPrefix)
	if !ok {
		return 1, comment
	}
	number, rest, _ = strings.Cut(number, " ")
	n, err := strconv.Atoi(number)
	if err != nil || n < 2 || strconv.Itoa(n) != number {
		return 1, comment
	}
	return n, rest
}
