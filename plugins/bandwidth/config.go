package bandwidth

import (
	"math"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

// Config is the parsed configuration. Ingress is what goes to the pod, egress what comes from it.
type Config struct {
	ingress, egress limit
}

// limit is that of one direction, as the kernel counts it. The zero limit is none.
type limit struct {
	rate  uint64 // bytes a second
	burst uint32 // bytes
}

func parse(req *plugin.Request) (Config, error) {
	c, err := parseLimits(req)
	if err != nil && req.Verb == cni.VerbDel {
		// What is to be removed has its name from the owner, whatever the limits were.
		return Config{}, nil
	}
	return c, err
}

// parseLimits reads the configuration and what the runtime asks for. The latter wins in each direction that it limits.
func parseLimits(req *plugin.Request) (Config, error) {
	var written, asked cni.Bandwidth
	if err := planned.DecodeConfig(req.Conf, &written); err != nil {
		return Config{}, err
	}
	if _, err := req.Conf.RuntimeConfig("bandwidth", &asked); err != nil {
		return Config{}, err
	}
	c, err := fromBits(written, "")
	if err != nil {
		return Config{}, err
	}
	wish, err := fromBits(asked, "runtimeConfig.bandwidth.")
	if err != nil {
		return Config{}, err
	}
	if wish.ingress != (limit{}) {
		c.ingress = wish.ingress
	}
	if wish.egress != (limit{}) {
		c.egress = wish.egress
	}
	return c, nil
}

// fromBits converts limits; prefix says in errors where their keys stand.
func fromBits(l cni.Bandwidth, prefix string) (Config, error) {
	ingress, err := newLimit(prefix+"ingress", l.IngressRate, l.IngressBurst)
	if err != nil {
		return Config{}, err
	}
	egress, err := newLimit(prefix+"egress", l.EgressRate, l.EgressBurst)
	return Config{ingress: ingress, egress: egress}, err
}

// newLimit converts bits to bytes, rounded down. direction is how the names of the keys begin.
func newLimit(direction string, rate, burst uint64) (limit, error) {
	switch {
	case rate == 0 && burst == 0:
		return limit{}, nil
	case burst == 0:
		return limit{}, invalid("%sRate without %sBurst: a limit needs both", direction, direction)
	case rate == 0:
		return limit{}, invalid("%sBurst without %sRate: a limit needs both", direction, direction)
	case rate < 8:
		return limit{}, invalid("%sRate %d is below 8 bits a second, which is the smallest that the kernel can count", direction, rate)
	case burst/8 >= math.MaxUint32:
		return limit{}, invalid("%sBurst %d is 4 GB or more, which the kernel can't count", direction, burst)
	}
	return limit{rate: rate / 8, burst: uint32(burst / 8)}, nil
}
