package kernel

import "context"

// applySources binds sources to zones of firewalld.
func (c *change) applySources(ctx context.Context) error {
	if len(c.state.Sources) == 0 {
		return nil
	}
	zones, owner := c.s.k.zones, c.state.Owner
	done, err := zones.Bind(ctx, owner, c.state.Sources)
	if len(done) > 0 {
		c.undo.add(func(ctx context.Context) error { return zones.Undo(ctx, owner, done) })
	}
	return err
}

// removeSources takes out of firewalld's zones what the owner has there, if the state has anything there.
func (r *removal) removeSources(ctx context.Context) error {
	if len(r.state.Sources) == 0 {
		return nil
	}
	return r.s.k.zones.Remove(ctx, r.state.Owner, r.state.Sources)
}

// sources compares what firewalld has in its zones.
func (c *comparison) sources(ctx context.Context) error {
	if len(c.state.Sources) == 0 {
		return nil
	}
	missing, err := c.s.k.zones.Missing(ctx, c.state.Sources)
	for _, s := range missing {
		c.note(s, nil)
	}
	return err
}
