package doctor

// manyRecords looks for more records than pods can be.
func manyRecords() Check {
	return Check{
		Name: "many-records", Looks: "how many attachments are recorded",
		Why:   "Tools that read all of them become slow, and so many are mostly of pods that are long gone.",
		Mend:  "cleat gc frees those of pods that are gone",
		Good:  "there are no more records than a node has pods",
		Needs: ofState,
		find: func(f *Facts) []Result {
			const many = 5000
			if len(f.Attachments) > many {
				return []Result{warning("%d attachments are recorded", len(f.Attachments))}
			}
			return nil
		},
	}
}
