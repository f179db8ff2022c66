package doctor

// diskSpace looks whether records and leases can be written.
func diskSpace() Check {
	return Check{
		Name: "disk-space", Looks: "space and inodes of the file systems that records, leases and locks lie on",
		Why:  "A full disk fails every ADD, and a program that writes carelessly leaves empty files.",
		Mend: "make room, or give the folder a file system of its own",
		Good: "there is room for records and leases",
		find: func(f *Facts) []Result {
			const few, scarce = 256, 4 << 20
			var all []Result
			for _, d := range f.Disks {
				switch {
				case d.Bytes == 0:
				case d.FreeBytes < scarce:
					all = append(all, failed("the file system of %s has %d KiB left", d.Path, d.FreeBytes>>10))
				case d.AllInodes > 0 && d.FreeInodes < few:
					all = append(all, failed("the file system of %s has %d inodes left", d.Path, d.FreeInodes))
				case d.FreeBytes*50 < d.Bytes && d.FreeBytes < 64*scarce:
					all = append(all, warning("the file system of %s is nearly full: %d MiB are left", d.Path, d.FreeBytes>>20))
				}
			}
			return all
		},
	}
}
