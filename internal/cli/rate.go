package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// rateUnits are the suffixes of a rate, longest first, in bits a second.
var rateUnits = []struct {
	suffix string
	factor uint64
}{
	{"ki", 1 << 10}, {"mi", 1 << 20}, {"gi", 1 << 30}, {"ti", 1 << 40},
	{"k", 1e3}, {"m", 1e6}, {"g", 1e9}, {"t", 1e12},
	{"", 1},
}

// parseRate reads a rate in bits a second: a whole number with k, M, G, T (powers of 1000) or Ki,
// Mi, Gi, Ti (of 1024), whatever the case, and "bit" after it if one likes: 10M, 10mbit.
func parseRate(s string) (uint64, error) {
	number := strings.TrimSuffix(strings.ToLower(s), "bit")
	factor := uint64(1)
	for _, u := range rateUnits {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, factor = rest, u.factor
			break
		}
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("rate %q is not a number of bits a second, such as 500k, 10M or 1G", s)
	}
	if n > math.MaxUint64/factor {
		return 0, fmt.Errorf("rate %q is too large", s)
	}
	return n * factor, nil
}

// burstOf is how many bits may pass at once at a rate: what it carries in a tenth of a second,
// at least 64 KiB, at most what the token bucket can hold. Without a burst the bandwidth plugins
// refuse a rate.
func burstOf(rate uint64) uint64 {
	const least = 64 << 10 * 8
	return min(max(rate/10, least), math.MaxUint32)
}
