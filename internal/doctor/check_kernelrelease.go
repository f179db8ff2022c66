package doctor

import "fmt"

// kernelRelease looks how old the kernel is.
func kernelRelease() Check {
	return Check{
		Name: "kernel-release", Looks: "the release of the kernel (uname -r)",
		Why: "Cleat is made for Linux 5.10 and later: older ones lack nftables' concatenations and netlink batches that it " +
			"relies on.",
		Mend: "install a kernel of 5.10 or later",
		Good: "the kernel is of 5.10 or later",
		find: func(f *Facts) []Result {
			release := f.text("proc/sys/kernel/osrelease")
			var major, minor int
			if n, err := fmt.Sscanf(release, "%d.%d", &major, &minor); n < 2 || err != nil || major > 5 || major == 5 && minor >= 10 {
				return nil
			}
			return []Result{failed("the kernel is %s", release)}
		},
	}
}
