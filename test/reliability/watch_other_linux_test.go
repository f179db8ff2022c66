//go:build !amd64 && !arm64

package reliability

import "errors"

func workWatched() error { return errors.ErrUnsupported }
