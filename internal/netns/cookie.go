package netns

// CookieOf returns the cookie of the namespace at path; see [Handle.Cookie].
func CookieOf(path string) (uint64, error) {
	h, err := Open(path)
	if err != nil {
		return 0, err
	}
	defer h.Close()
	return h.Cookie()
}
