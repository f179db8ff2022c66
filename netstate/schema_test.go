package netstate_test

import (
	"errors"
	"testing"

	"github.com/cleat-cni/cleat/netstate"
)

func TestSchemaOfComments(t *testing.T) {
	o := netstate.Owner{Network: "pods", ContainerID: "c1", IfName: "eth0"}
	for _, tc := range []struct {
		name, comment string
		schema        int
		mark          string // "" for none
	}{
		{"first", o.CommentOf(1, 200), 1, o.Mark()},
		{"this", o.CommentOf(0, 200), netstate.Schema, o.Mark()},
		{"next", o.CommentOf(2, 200), 2, o.Mark()},
		{"next-without-names", o.CommentOf(2, 30), 2, o.Mark()},
		{"far", o.CommentOf(4711, 200), 4711, o.Mark()},
		{"nobody's", "cleat/2 something else", 2, ""},
		{"no-number", "cleat/x " + o.Mark(), 1, ""},
		{"first-with-number", "cleat/1 " + o.Mark(), 1, ""},
		{"negative", "cleat/-2 " + o.Mark(), 1, ""},
		{"leading-zero", "cleat/02 " + o.Mark(), 1, ""},
		{"empty", "", 1, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			schema, _ := netstate.SchemaOf(tc.comment)
			mark, owner, ok := netstate.ParseMark(tc.comment)
			if schema != tc.schema || mark != tc.mark || ok != (tc.mark != "") {
				t.Errorf("%q: schema %d, mark %q, %t", tc.comment, schema, mark, ok)
			}
			if !owner.IsZero() && owner != o {
				t.Errorf("%q: owner %s", tc.comment, owner)
			}
		})
	}
	if err := netstate.CheckSchema(2, 1); !errors.Is(err, netstate.ErrNewer) {
		t.Errorf("later: %v", err)
	}
	if err := errors.Join(netstate.CheckSchema(0, 1), netstate.CheckSchema(1, 1), netstate.CheckSchema(1, 2)); err != nil {
		t.Errorf("known: %v", err)
	}
}
