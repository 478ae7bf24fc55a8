package storetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"mcpx/internal/catalog"
	"mcpx/internal/fault"
	"mcpx/internal/store"
)

// stagedCases has one case for each method of the ports of candidates, links and pins.
var stagedCases = map[string]func(*testing.T, Pair){
	"Candidates":    candidates,
	"CandidateByID": candidateByID,
	"PutCandidate":  putCandidate,
	"Links":         links,
	"PutLink":       putLink,
	"AllPins":       allPins,
	"PinsOf":        pinsOf,
	"PutPins":       putPins,
	"AllOffers":     allOffers,
	"OfferOf":       offerOf,
	"PutOffer":      putOffer,
}

// uneven is a time that a careless store would change.
var uneven = time.Date(2026, 11, 29, 12, 30, 1, 123456789, time.FixedZone("east", 3600))

func candidate(id string, state catalog.CandidateState) catalog.Candidate {
	return catalog.Candidate{
		ID: id, State: state, Name: "gh", Package: catalog.Package{Kind: catalog.PackageNPM, Name: "@a/gh", Rest: []string{"", "ü<&>"}},
		Shape:   catalog.Shape{Transport: "stdio", Command: "npx", Args: []string{"-y"}, Variables: []string{"T"}, Hidden: true},
		Reasons: []string{"not-in-catalog"}, Server: "srv_1", Verdict: &catalog.Verdict{Principal: "owner", Channel: "cli", At: uneven, Note: "n"},
		Sightings: []catalog.Seen{{Agent: "codex", File: "/c", Scope: "user", Name: "gh", Observation: "obs_1", Digest: "d", At: uneven}},
		First:     uneven, Last: uneven.Add(time.Hour),
	}
}

func cutCandidate(c catalog.Candidate) catalog.Candidate {
	c.First, c.Last = store.CutTime(c.First), store.CutTime(c.Last)
	v := *c.Verdict
	v.At = store.CutTime(v.At)
	c.Verdict = &v
	c.Sightings = append([]catalog.Seen(nil), c.Sightings...)
	for i := range c.Sightings {
		c.Sightings[i].At = store.CutTime(c.Sightings[i].At)
	}
	return c
}

func putCandidates(t *testing.T, p Pair, all ...catalog.Candidate) {
	t.Helper()
	change(t, p.Write, func(tx store.Tx) error {
		for _, c := range all {
			if err := tx.PutCandidate(t.Context(), catalog.PutCandidate{Candidate: c}); err != nil {
				return err
			}
		}
		return nil
	})
}

func listCandidates(t *testing.T, p Pair, l catalog.ListCandidates) (ids []string) {
	t.Helper()
	for _, c := range read(t, p.Read, func(r store.Reader) ([]catalog.Candidate, error) { return r.Candidates(t.Context(), l) }) {
		ids = append(ids, c.ID)
	}
	return ids
}

func candidates(t *testing.T, p Pair) {
	putCandidates(t, p, candidate("cand_c", catalog.CandidateNew), candidate("cand_a", catalog.CandidateRejected), candidate("cand_b", catalog.CandidateNew))
	same(t, "all", []string{"cand_a", "cand_b", "cand_c"}, listCandidates(t, p, catalog.ListCandidates{}))
	same(t, "new", []string{"cand_b", "cand_c"}, listCandidates(t, p, catalog.ListCandidates{State: catalog.CandidateNew}))
	same(t, "first", []string{"cand_a"}, listCandidates(t, p, catalog.ListCandidates{Limit: 1}))
	same(t, "after", []string{"cand_c"}, listCandidates(t, p, catalog.ListCandidates{After: "cand_b", State: catalog.CandidateNew}))
	var many []catalog.Candidate
	for i := range catalog.MaxCandidatePage + 2 {
		many = append(many, candidate(fmt.Sprintf("cand_x%04d", i), catalog.CandidateGone))
	}
	putCandidates(t, p, many...)
	if n := len(listCandidates(t, p, catalog.ListCandidates{Limit: 1 << 30})); n != catalog.MaxCandidatePage {
		t.Errorf("a page holds %d candidates, want at most %d", n, catalog.MaxCandidatePage)
	}
	all := read(t, p.Read, func(r store.Reader) ([]catalog.Candidate, error) { return catalog.AllCandidates(t.Context(), r) })
	if len(all) != len(many)+3 {
		t.Errorf("AllCandidates gives %d, want %d", len(all), len(many)+3)
	}
}

func candidateByID(t *testing.T, p Pair) {
	putCandidates(t, p, candidate("cand_abc", catalog.CandidateNew), candidate("cand_abd", catalog.CandidateNew), candidate("cand_ab", catalog.CandidateNew))
	get := func(id string) (c catalog.Candidate, err error) {
		err = p.Read.View(t.Context(), func(r store.Reader) error {
			c, err = r.CandidateByID(t.Context(), catalog.CandidateByID{ID: id})
			return err
		})
		return c, err
	}
	for given, want := range map[string]string{"cand_abc": "cand_abc", "cand_ab": "cand_ab", "cand_abd": "cand_abd"} {
		c, err := get(given)
		if err != nil || c.ID != want {
			t.Errorf("%s: %s, %v", given, c.ID, err)
		}
	}
	_, err := get("cand_a")
	wantFault(t, err, fault.Invalid, "candidate-ambiguous")
	for _, id := range []string{"", "cand_x", "cand_abcd"} {
		_, err := get(id)
		wantFault(t, err, fault.NotFound, "candidate-unknown")
	}
}

func putCandidate(t *testing.T, p Pair) {
	want := candidate("cand_a", catalog.CandidateNew)
	putCandidates(t, p, want)
	get := func() catalog.Candidate {
		return read(t, p.Read, func(r store.Reader) (catalog.Candidate, error) {
			return r.CandidateByID(t.Context(), catalog.CandidateByID{ID: "cand_a"})
		})
	}
	same(t, "first put", cutCandidate(want), get())
	want.State, want.Sightings, want.Name = catalog.CandidateRejected, nil, "other"
	putCandidates(t, p, want)
	same(t, "second put", cutCandidate(want), get())
	same(t, "no longer new", []string(nil), listCandidates(t, p, catalog.ListCandidates{State: catalog.CandidateNew}))
}

func link(digest, server string) catalog.Link {
	return catalog.Link{Digest: digest, Observation: "obs_1", Server: server, Verdict: catalog.Verdict{Principal: "owner", Channel: "cli", At: store.CutTime(uneven)}}
}

func putLinks(t *testing.T, p Pair, all ...catalog.Link) {
	t.Helper()
	change(t, p.Write, func(tx store.Tx) error {
		for _, l := range all {
			if err := tx.PutLink(t.Context(), catalog.PutLink{Link: l}); err != nil {
				return err
			}
		}
		return nil
	})
}

func allLinks(t *testing.T, p Pair) []catalog.Link {
	t.Helper()
	return read(t, p.Read, func(r store.Reader) ([]catalog.Link, error) { return r.Links(t.Context()) })
}

func links(t *testing.T, p Pair) {
	put(t, p.Write, server("srv_1", "one"), server("srv_2", "two"))
	putLinks(t, p, link("b", "srv_1"), link("a", "srv_2"), link("c", "srv_1"))
	same(t, "all", []catalog.Link{link("a", "srv_2"), link("b", "srv_1"), link("c", "srv_1")}, allLinks(t, p))
	change(t, p.Write, func(tx store.Tx) error {
		return tx.DeleteServer(t.Context(), catalog.DeleteServer{ID: "srv_1"})
	})
	same(t, "after the server is removed", []catalog.Link{link("a", "srv_2")}, allLinks(t, p))
}

func putLink(t *testing.T, p Pair) {
	put(t, p.Write, server("srv_1", "one"), server("srv_2", "two"))
	l := link("a", "srv_1")
	l.Verdict.At = uneven
	putLinks(t, p, l)
	same(t, "first put", []catalog.Link{link("a", "srv_1")}, allLinks(t, p))
	putLinks(t, p, link("a", "srv_2"))
	same(t, "second put", []catalog.Link{link("a", "srv_2")}, allLinks(t, p))
	wantFault(t, p.Write.Change(t.Context(), func(tx store.Tx) error {
		return tx.PutLink(t.Context(), catalog.PutLink{Link: link("b", "srv_9")})
	}), fault.NotFound, "server-unknown")
	put(t, p.Write, server("srv_2", "renamed")) // a link is to the id
	same(t, "after a rename", []catalog.Link{link("a", "srv_2")}, allLinks(t, p))
}

func pinned(server string) catalog.Pins {
	return catalog.Pins{
		Server: server, Wanted: true, Tools: []catalog.ToolPin{{Name: "t", Digest: "d", Tool: json.RawMessage(`{"name":"t","n":9007199254740993}`)}},
		Held: []catalog.Held{{Name: "u", Why: catalog.ToolNew, Digest: "e", Masked: true}}, Taken: store.CutTime(uneven),
	}
}

func putAllPins(t *testing.T, p Pair, all ...catalog.Pins) {
	t.Helper()
	change(t, p.Write, func(tx store.Tx) error {
		for _, v := range all {
			if err := tx.PutPins(t.Context(), catalog.PutPins{Pins: v}); err != nil {
				return err
			}
		}
		return nil
	})
}

func allPins(t *testing.T, p Pair) {
	put(t, p.Write, server("srv_1", "one"), server("srv_2", "two"))
	putAllPins(t, p, pinned("srv_2"), pinned("srv_1"))
	get := func() []catalog.Pins {
		return read(t, p.Read, func(r store.Reader) ([]catalog.Pins, error) { return r.AllPins(t.Context()) })
	}
	same(t, "all", []catalog.Pins{pinned("srv_1"), pinned("srv_2")}, get())
	change(t, p.Write, func(tx store.Tx) error {
		return tx.DeleteServer(t.Context(), catalog.DeleteServer{ID: "srv_1"})
	})
	same(t, "after the server is removed", []catalog.Pins{pinned("srv_2")}, get())
}

func pinsOf(t *testing.T, p Pair) {
	put(t, p.Write, server("srv_1", "one"), server("srv_2", "two"))
	putAllPins(t, p, pinned("srv_1"))
	same(t, "pins", pinned("srv_1"), read(t, p.Read, func(r store.Reader) (catalog.Pins, error) {
		return r.PinsOf(t.Context(), catalog.PinsOf{Server: "srv_1"})
	}))
	wantFault(t, p.Read.View(t.Context(), func(r store.Reader) error {
		_, err := r.PinsOf(t.Context(), catalog.PinsOf{Server: "srv_2"})
		return err
	}), fault.NotFound, "pins-none")
}

func putPins(t *testing.T, p Pair) {
	put(t, p.Write, server("srv_1", "one"))
	v := pinned("srv_1")
	v.Taken = uneven
	putAllPins(t, p, v)
	v = pinned("srv_1")
	v.Wanted, v.Tools, v.Held = false, nil, nil
	putAllPins(t, p, v)
	same(t, "second put", v, read(t, p.Read, func(r store.Reader) (catalog.Pins, error) {
		return r.PinsOf(t.Context(), catalog.PinsOf{Server: "srv_1"})
	}))
	wantFault(t, p.Write.Change(t.Context(), func(tx store.Tx) error {
		return tx.PutPins(t.Context(), catalog.PutPins{Pins: pinned("srv_9")})
	}), fault.NotFound, "server-unknown")
}

func offered(server string) catalog.Offer {
	return catalog.Offer{Server: server, Tools: pinned(server).Tools, Seen: store.CutTime(uneven)}
}

func putAllOffers(t *testing.T, p Pair, all ...catalog.Offer) {
	t.Helper()
	change(t, p.Write, func(tx store.Tx) error {
		for _, v := range all {
			if err := tx.PutOffer(t.Context(), catalog.PutOffer{Offer: v}); err != nil {
				return err
			}
		}
		return nil
	})
}

func readOffers(t *testing.T, p Pair) []catalog.Offer {
	t.Helper()
	return read(t, p.Read, func(r store.Reader) ([]catalog.Offer, error) { return r.AllOffers(t.Context()) })
}

func allOffers(t *testing.T, p Pair) {
	put(t, p.Write, server("srv_1", "one"), server("srv_2", "two"))
	putAllOffers(t, p, offered("srv_2"), offered("srv_1"))
	same(t, "all", []catalog.Offer{offered("srv_1"), offered("srv_2")}, readOffers(t, p))
	change(t, p.Write, func(tx store.Tx) error {
		return tx.DeleteServer(t.Context(), catalog.DeleteServer{ID: "srv_1"})
	})
	same(t, "after the server is removed", []catalog.Offer{offered("srv_2")}, readOffers(t, p))
}

func offerOf(t *testing.T, p Pair) {
	put(t, p.Write, server("srv_1", "one"), server("srv_2", "two"))
	putAllOffers(t, p, offered("srv_1"))
	for id, want := range map[string]catalog.Offer{"srv_1": offered("srv_1"), "srv_2": {}, "srv_9": {}} {
		same(t, id, want, read(t, p.Read, func(r store.Reader) (catalog.Offer, error) {
			return r.OfferOf(t.Context(), catalog.OfferOf{Server: id})
		}))
	}
}

func putOffer(t *testing.T, p Pair) {
	put(t, p.Write, server("srv_1", "one"))
	v := offered("srv_1")
	v.Seen = uneven
	putAllOffers(t, p, v)
	same(t, "the time is cut", []catalog.Offer{offered("srv_1")}, readOffers(t, p))
	v = offered("srv_1")
	v.Tools = nil
	putAllOffers(t, p, v)
	same(t, "second put", []catalog.Offer{v}, readOffers(t, p))
	putAllOffers(t, p, offered("srv_9"))
	same(t, "of a server that is in no catalog", []catalog.Offer{v, offered("srv_9")}, readOffers(t, p))
}
