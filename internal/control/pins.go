package control

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/store"
)

// ReviewTools asks a server for its tools and compares them with those that a person has agreed to. The server is started
// when it does not run.
func (c *Control) ReviewTools(ctx context.Context, in api.ServerRef) (api.ToolsReview, error) {
	if err := c.allow(ctx, "catalog.tools"); err != nil {
		return api.ToolsReview{}, err
	}
	s, list, err := c.offeredTools(ctx, in.Name)
	if err != nil {
		return api.ToolsReview{}, err
	}
	var out api.ToolsReview
	err = c.cfg.DB.View(ctx, func(r store.Reader) error {
		pins, err := pinsOf(ctx, r, s.ID)
		out = compared(s, pins, list)
		return err
	})
	return out, err
}

// AcceptTools makes what a server offers now the tools that a person has agreed to, if it still is what they have seen.
func (c *Control) AcceptTools(ctx context.Context, in api.AcceptTools) (api.ToolsReview, error) {
	if err := c.allow(ctx, "catalog.accept"); err != nil {
		return api.ToolsReview{}, err
	}
	s, list, err := c.offeredTools(ctx, in.Name)
	if err != nil {
		return api.ToolsReview{}, err
	}
	if listDigest(list) != in.Digest {
		return api.ToolsReview{}, fault.New(fault.Stale, "tools-stale").Saying("the tools of %s have changed since they were shown", s.Name).
			Hinting("look at them again with `mcpx catalog review %s --tools`", s.Name)
	}
	var out api.ToolsReview
	err = c.mutate(ctx, func(ctx context.Context, tx store.Tx) error {
		// The entry may have been removed or judged while its server was asked.
		now, err := tx.ServerByID(ctx, catalog.ServerByID{ID: s.ID})
		if err != nil {
			return err
		}
		pins, err := pinsOf(ctx, tx, s.ID)
		if err != nil {
			return err
		}
		out = compared(s, pins, list)
		pins.Server = s.ID
		if err := tx.PutPins(ctx, catalog.PutPins{Pins: pins.Take(list, true, c.cfg.Now())}); err != nil {
			return err
		}
		if now.Review == catalog.ReviewQuarantined {
			now.Review, now.Updated = catalog.ReviewApproved, c.cfg.Now()
			if err := tx.PutServer(ctx, catalog.PutServer{Server: now}); err != nil {
				return err
			}
		}
		var names []string
		for _, t := range out.Tools {
			names = append(names, t.Name+": "+t.Why)
		}
		return c.tell(ctx, tx, event.CatalogReviewed, event.Refs{event.RefServer: s.ID}, fmt.Sprintf("the %d tools of %s are agreed to", len(list), s.Name),
			map[string]any{"tools": orEmpty(names), "digest": in.Digest, "note": in.Note})
	})
	out.Accepted, out.Operation = err == nil, api.OperationOf(ctx)
	return out, err
}

// pinsOf gives the pins of a server, the zero value without some.
func pinsOf(ctx context.Context, r catalog.PinReader, server string) (catalog.Pins, error) {
	pins, err := r.PinsOf(ctx, catalog.PinsOf{Server: server})
	if fault.KindOf(err) == fault.NotFound {
		return catalog.Pins{}, nil
	}
	return pins, err
}

// offeredTools is the entry of a server with the pins of everything that it offers now.
func (c *Control) offeredTools(ctx context.Context, name string) (catalog.Server, []catalog.ToolPin, error) {
	s, err := c.routed(ctx, name)
	if err != nil {
		return catalog.Server{}, nil, err
	}
	if s.Overlay {
		return catalog.Server{}, nil, fault.New(fault.Conflict, "server-overlay").Saying("the server %s is offered by `mcpx up` and lives only while that runs", name).
			Hinting("add it to the catalog with `mcpx server add`, then its tools can be pinned")
	}
	tools, err := c.listTools(ctx, s.Name)
	if err != nil {
		return catalog.Server{}, nil, err
	}
	list := make([]catalog.ToolPin, 0, len(tools))
	for _, t := range tools {
		pin, ok := catalog.PinTool(t.Raw)
		if !ok {
			return catalog.Server{}, nil, badAnswer(s.Name, "tools/list", fmt.Errorf("a tool has no name"))
		}
		list = append(list, pin)
	}
	return s.Server, list, nil
}

// listDigest is the same for the same tools in any order.
func listDigest(list []catalog.ToolPin) string {
	digests := make([]string, 0, len(list))
	for _, t := range list {
		digests = append(digests, t.Digest)
	}
	slices.Sort(digests)
	sum := sha256.Sum256([]byte(strings.Join(digests, "\n")))
	return hex.EncodeToString(sum[:16])
}

// toolGone is a tool that was agreed to and is offered no more. Nothing happens with it.
const toolGone = "tool-gone"

func compared(s catalog.Server, pins catalog.Pins, list []catalog.ToolPin) api.ToolsReview {
	out := api.ToolsReview{Server: s.Name, PinMode: s.PinMode(), Taken: pins.Taken, Digest: listDigest(list), Tools: []api.ToolChange{}}
	before := map[string]json.RawMessage{}
	for _, t := range pins.Tools {
		before[t.Name] = t.Tool
	}
	now := map[string]catalog.ToolPin{}
	for _, t := range list {
		now[t.Digest] = t
	}
	mode := s.PinMode()
	if mode == catalog.PinsOff {
		mode = catalog.PinsWarn // a person who looks wants to see
	}
	held := pins.Compare(mode, list)
	masks := s.PinMode() != catalog.PinsOff && !pins.Taken.IsZero()
	for _, h := range held {
		tool := now[h.Digest].Tool
		change := api.ToolChange{Name: h.Name, Why: h.Why, Masked: h.Masked && masks, Diff: catalog.WordDiff(readable(before[h.Name]), readable(tool))}
		for _, r := range catalog.HiddenCharacters(tool) {
			change.Hidden = append(change.Hidden, fmt.Sprintf("%U", r))
		}
		out.Tools = append(out.Tools, change)
	}
	offered := map[string]bool{}
	for _, t := range list {
		offered[t.Name] = true
	}
	for _, t := range pins.Tools {
		if !offered[t.Name] {
			out.Tools = append(out.Tools, api.ToolChange{Name: t.Name, Why: toolGone, Diff: catalog.WordDiff(readable(t.Tool), "")})
		}
	}
	out.Same = len(list) - len(held)
	return out
}

// readable is a tool as a text with one fact on a line.
func readable(tool json.RawMessage) string {
	if tool == nil {
		return ""
	}
	var b bytes.Buffer
	if err := json.Indent(&b, tool, "", "  "); err != nil {
		return string(tool)
	}
	return b.String()
}
