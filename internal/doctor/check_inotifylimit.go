package doctor

// inotifyLimit looks how many watchers a user may have.
func inotifyLimit() Check {
	return Check{
		Name: "inotify-limit", Looks: "fs.inotify.max_user_instances",
		Why: "Runtimes, kubelets and pods watch files, all of them as root: where the limit is small, a runtime does not " +
			"notice a changed configuration, and pods fail with 'too many open files'.",
		Mend:  "sysctl -w fs.inotify.max_user_instances=1024, and the same in /etc/sysctl.d",
		Good:  "there may be enough watchers of files",
		Needs: ofState,
		find: func(f *Facts) []Result {
			most, ok := f.number("proc/sys/fs/inotify/max_user_instances")
			if !ok || most > 2*len(f.living())+64 {
				return nil
			}
			return []Result{warning("a user may have %d watchers of files, and there are %d attachments", most, len(f.living()))}
		},
	}
}
