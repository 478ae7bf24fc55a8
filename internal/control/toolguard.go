package control

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"mcpx/internal/catalog"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/gateway"
	"mcpx/internal/key"
	"mcpx/internal/store"
)

// ToolGuard compares the tools that servers offer with those that a person has agreed to. The gateway asks it about every
// list and call; what it finds out is written by the Control that it was given to. The zero value holds nothing back.
type ToolGuard struct {
	control *Control // set by New, before the gateway serves

	mu      sync.RWMutex // guards servers and what is in them; a leaf
	servers map[string]*watched
}

// watched is one server whose tools are pinned, or shall be.
type watched struct {
	name string
	mode catalog.PinMode
	pins catalog.Pins
	held map[string]catalog.Held // by name: what the latest lists had beside the pins
	refs map[string]bool         // names of masked ones; never changed, only replaced
	busy bool                    // News runs
}

var _ gateway.Tools = (*ToolGuard)(nil)

// set takes over what the catalog says. What was held stays held while the pins are the same.
func (g *ToolGuard) set(servers []catalog.Server, pins map[string]catalog.Pins) {
	g.mu.Lock()
	defer g.mu.Unlock()
	next := map[string]*watched{}
	for _, s := range servers {
		p, pinned := pins[s.ID]
		if !pinned || s.PinMode() == catalog.PinsOff {
			continue
		}
		w := &watched{name: s.Name, mode: s.PinMode(), pins: p, held: map[string]catalog.Held{}}
		for _, h := range p.Held {
			if h.Why == catalog.ToolNew {
				h.Masked = w.mode == catalog.PinsStrict
			}
			w.held[h.Name] = h
		}
		w.masks()
		if old := g.servers[s.ID]; old != nil {
			w.busy = old.busy
		}
		next[s.ID] = w
	}
	g.servers = next
}

// masks makes refs anew.
func (w *watched) masks() {
	w.refs = map[string]bool{}
	for name, h := range w.held {
		if h.Masked {
			w.refs[name] = true
		}
	}
}

// Held gives the names of the tools that cannot be called.
func (g *ToolGuard) Held(server string) map[string]bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if w := g.servers[server]; w != nil {
		return w.refs
	}
	return nil
}

// List compares one page of a list. A page says nothing about the tools that are not on it.
func (g *ToolGuard) List(server string, page [][]byte) (mask []bool, news bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.servers[server]
	if w == nil {
		return nil, false
	}
	if w.pins.Wanted {
		news, w.busy = !w.busy, true
		return nil, news
	}
	pins := make([]catalog.ToolPin, len(page))
	for i, raw := range page {
		pins[i], _ = catalog.PinTool(raw) // one without a name cannot be called, and matches no pin
	}
	found := map[string]catalog.Held{}
	masked := map[string]bool{} // by digest: of two tools with one name only the agreed one passes
	for _, h := range w.pins.Compare(w.mode, pins) {
		found[h.Name] = h
		masked[h.Digest] = masked[h.Digest] || h.Masked
	}
	changed := false
	for i, p := range pins {
		h, held := found[p.Name]
		before, was := w.held[p.Name]
		switch {
		case held && before != h:
			w.held[p.Name], changed = h, true
		case !held && was:
			delete(w.held, p.Name)
			changed = true
		}
		if held && masked[p.Digest] {
			if mask == nil {
				mask = make([]bool, len(page))
			}
			mask[i] = true
		}
	}
	if changed {
		w.masks()
	}
	if changed && !w.busy {
		news, w.busy = true, true
	}
	return mask, news
}

// News writes down what List has found out: the pins of a server that a person has agreed to before its tools were known,
// or the tools that are held back now.
func (g *ToolGuard) News(ctx context.Context, server string) {
	g.mu.Lock()
	w := g.servers[server]
	if w == nil {
		g.mu.Unlock()
		return
	}
	name, wanted := w.name, w.pins.Wanted
	held := slices.SortedFunc(maps.Values(w.held), func(a, b catalog.Held) int { return strings.Compare(a.Name, b.Name) })
	w.busy = false // what is found out from now on is news again
	g.mu.Unlock()
	var err error
	if wanted {
		err = g.control.takePins(ctx, server, name)
	} else {
		err = g.control.noteHeld(ctx, server, name, held)
	}
	if err != nil && ctx.Err() == nil {
		g.control.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "the tools of a server were not written down", slog.String(key.Server, name), slog.Any(key.Cause, err))
	}
}

// takePins pins the tools of a server as they are: a person has agreed to the server, and nobody has seen its tools yet.
func (c *Control) takePins(ctx context.Context, server, name string) error {
	_, list, err := c.offeredTools(ctx, name)
	if err != nil {
		return err
	}
	return c.mutate(ctx, func(ctx context.Context, tx store.Tx) error {
		pins, err := pinsOf(ctx, tx, server)
		if err != nil || !pins.Wanted {
			return err
		}
		pins = pins.Take(list, false, c.cfg.Now())
		s, err := tx.ServerByID(ctx, catalog.ServerByID{ID: server})
		if err != nil {
			return err
		}
		pins.Held = pins.Compare(s.PinMode(), list) // only hidden characters: a person has to see them
		if err := tx.PutPins(ctx, catalog.PutPins{Pins: pins}); err != nil {
			return err
		}
		return c.tell(ctx, tx, event.CatalogReviewed, event.Refs{event.RefServer: server},
			fmt.Sprintf("the %d tools of %s are pinned as they were first seen", len(pins.Tools), name), map[string]any{"digest": listDigest(list), "held": orEmpty(pins.Held)})
	})
}

// noteHeld writes down which tools of a server are not as they were agreed to.
func (c *Control) noteHeld(ctx context.Context, server, name string, held []catalog.Held) error {
	return c.cfg.DB.Change(ctx, func(tx store.Tx) error {
		pins, err := pinsOf(ctx, tx, server)
		if err != nil || pins.Server == "" || pins.Wanted || slices.Equal(pins.Held, held) {
			return err
		}
		var fresh []string
		for _, h := range held {
			if h.Masked && !slices.Contains(pins.Held, h) {
				fresh = append(fresh, h.Name+": "+h.Why)
			}
		}
		pins.Held = held
		if err := tx.PutPins(ctx, catalog.PutPins{Pins: pins}); err != nil || len(fresh) == 0 {
			return err
		}
		return c.tell(ctx, tx, event.CatalogQuarantined, event.Refs{event.RefServer: server},
			fmt.Sprintf("%d tools of %s are held back", len(fresh), name), map[string]any{"tools": fresh})
	})
}

// loadGuard gives the guard what the catalog says.
func (c *Control) loadGuard(ctx context.Context) error {
	return c.cfg.DB.View(ctx, func(r store.Reader) error {
		all, err := catalog.All(ctx, r)
		if err != nil {
			return err
		}
		pins, err := pinsByServer(ctx, r)
		if err == nil {
			c.cfg.Tools.set(all, pins)
		}
		return err
	})
}

// heldFault is the error of a call of the daemon's own client to a tool that is held back.
func heldFault(server, tool string) error {
	return fault.New(fault.Conflict, "tool-held").Saying("the tool %s of %s is held back: it is not as a person has agreed to it", tool, server).
		Hinting("see how it has changed with `mcpx catalog review %s --tools`", server)
}
