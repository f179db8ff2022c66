package network

import "github.com/cleat-cni/cleat/libcni"

// Problems returns what is wrong with networks at present, by the file that it is about: one that is not used as it is now, where what it said last
// stands, and a network that is not ready. Each says what to do if that is known.
func (m *Manager) Problems() map[string]string {
	problems := m.folder.problems()
	m.ready.mu.Lock()
	defer m.ready.mu.Unlock()
	for _, n := range m.folder.networks() {
		// What is wrong with the file says more than what still runs by what it said before.
		if err := m.ready.errs[n.Name]; err != nil && problems[n.Source] == "" {
			problems[n.Source] = "network " + n.Name + " is not ready: " + err.Error()
		}
	}
	return problems
}

// problems says why files are not used as they are now, or the folder is not.
func (f *folder) problems() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	problems := map[string]string{}
	if f.err != nil {
		problems[f.dir] = f.err.Error() + whatToDo(f.err)
	}
	for path, err := range f.why {
		text := libcni.IgnoredFile{File: path, Err: err}.String() + whatToDo(err)
		if last := f.files[path]; last != nil {
			text += "; network " + last.Name + " stays as it was"
		}
		problems[path] = text
	}
	return problems
}
