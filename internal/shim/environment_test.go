//go:build unix

package shim_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcpx/internal/fault"
	"mcpx/internal/gateway"
	"mcpx/internal/process"
)

// TestAdoptInSpiteOfTheSocket takes over a child whose supervisor has lost its socket (S9).
func TestAdoptInSpiteOfTheSocket(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, run, socket string) error{
		"removed":               func(_ *testing.T, _, socket string) error { return os.Remove(socket) },
		"run directory emptied": func(_ *testing.T, run, _ string) error { return os.RemoveAll(run) },
		"a file in its place": func(_ *testing.T, _, socket string) error {
			return errors.Join(os.Remove(socket), os.WriteFile(socket, nil, 0o600))
		},
		"a socket that nobody listens on": func(t *testing.T, _, socket string) error {
			if err := os.Remove(socket); err != nil {
				return err
			}
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
			if err != nil {
				return err
			}
			l.SetUnlinkOnClose(false)
			return l.Close()
		},
		"open to all": func(_ *testing.T, _, socket string) error { return os.Chmod(socket, 0o644) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t, nil)
			l, s, id := h.start(t)
			do(t, l, s, 1, "where", "", nil)
			pid := l.Info().Pid
			h.crash(t, l)
			if err := spoil(t, h.run, h.socket(t, id)); err != nil {
				t.Fatal(err)
			}
			if alive, lost := h.survivors(t); len(alive) != 1 || len(lost) != 0 || alive[0].ID != id {
				t.Fatalf("survivors %+v, lost %+v; want %s", alive, lost, id)
			}
			got, again, s2 := h.adopt(t, id)
			if got.Child != pid {
				t.Errorf("child %d, want %d", got.Child, pid)
			}
			do(t, again, s2, 2, "where", "", nil)
			h.crash(t, again)
		})
	}
}

// socket is the path in the record of a bundle.
func (r *rig) socket(t *testing.T, id string) string {
	t.Helper()
	var fields struct{ Socket string }
	b, err := os.ReadFile(filepath.Join(r.state, "bundles", id, "record"))
	if err == nil {
		err = json.Unmarshal(b, &fields)
	}
	if err != nil {
		t.Fatal(err)
	}
	return fields.Socket
}

// alter changes one field of a record, as a restored copy or another program would. The result undoes it.
func (r *rig) alter(t *testing.T, id, field string, value any) (undo func()) {
	t.Helper()
	path := filepath.Join(r.state, "bundles", id, "record")
	fields := map[string]any{}
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &fields)
	}
	before := b
	if err == nil {
		fields[field] = value
		b, err = json.Marshal(fields)
	}
	if err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.WriteFile(path, before, 0o600); err != nil {
			t.Error(err)
		}
	}
}

// TestWrongRecord has records that name another token, or another process than the one that answers (S9, S18).
func TestWrongRecord(t *testing.T) {
	t.Parallel()
	stranger := sleeper(t)
	for name, c := range map[string]struct {
		field string
		value any
		want  string
	}{
		"token":           {"token", strings.Repeat("0", 64), "refused: token"},
		"another process": {"supervisor", stranger, "another process answers"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t, nil)
			l, s, id := h.start(t)
			do(t, l, s, 1, "where", "", nil)
			child, err := process.Identify(l.Info().Pid)
			if err != nil {
				t.Fatal(err)
			}
			h.crash(t, l)
			t.Cleanup(h.alter(t, id, c.field, c.value)) // or nobody could end it
			err = h.Adopt(context.Background(), id, func(gateway.Adopted) (gateway.Sink, error) {
				t.Error("taken over")
				return newSink(), nil
			})
			f, ok := errors.AsType[*fault.Error](err)
			if !ok || f.Kind != fault.Unavailable || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want a word about %q", err, c.want)
			}
			if !child.Alive() {
				t.Error("a child that was not adopted was killed")
			}
		})
	}
}
