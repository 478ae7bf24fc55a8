package storetest

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"mcpx/internal/catalog"
	"mcpx/internal/store"
)

// staged is the part of a model that holds candidates, links, pins and offers.
type staged struct {
	candidates map[string]catalog.Candidate
	links      map[string]catalog.Link  // by digest
	pins       map[string]catalog.Pins  // by server
	offers     map[string]catalog.Offer // by server
}

func newStaged() staged {
	return staged{candidates: map[string]catalog.Candidate{}, links: map[string]catalog.Link{}, pins: map[string]catalog.Pins{}, offers: map[string]catalog.Offer{}}
}

func (s staged) clone() staged {
	return staged{candidates: maps.Clone(s.candidates), links: maps.Clone(s.links), pins: maps.Clone(s.pins), offers: maps.Clone(s.offers)}
}

// forget drops what ends with a server.
func (s staged) forget(server string) {
	maps.DeleteFunc(s.links, func(_ string, l catalog.Link) bool { return l.Server == server })
	delete(s.pins, server)
	delete(s.offers, server)
}

// twin is a deep copy, so that nothing is shared with the caller.
func twin[T any](v T) (T, error) {
	var out T
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	return out, err
}

func twins[T any](all []T) ([]T, error) {
	out := make([]T, 0, len(all))
	for _, v := range all {
		w, err := twin(v)
		if err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return out, nil
}

// sortedValues are the values in order of their keys.
func sortedValues[T any](m map[string]T) []T {
	var out []T
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[k])
	}
	return out
}

func (s *state) Candidates(_ context.Context, p catalog.ListCandidates) ([]catalog.Candidate, error) {
	all := slices.DeleteFunc(sortedValues(s.candidates), func(c catalog.Candidate) bool {
		return c.ID <= p.After || p.State != "" && c.State != p.State
	})
	return twins(all[:min(len(all), p.PageLimit())])
}

func (s *state) CandidateByID(_ context.Context, p catalog.CandidateByID) (catalog.Candidate, error) {
	if c, ok := s.candidates[p.ID]; ok {
		return twin(c)
	}
	var found []catalog.Candidate
	for id, c := range s.candidates {
		if p.ID != "" && strings.HasPrefix(id, p.ID) {
			found = append(found, c)
		}
	}
	switch len(found) {
	case 0:
		return catalog.Candidate{}, catalog.CandidateUnknown(p.ID)
	case 1:
		return twin(found[0])
	}
	return catalog.Candidate{}, catalog.CandidateAmbiguous(p.ID)
}

func (s *state) PutCandidate(_ context.Context, p catalog.PutCandidate) error {
	c, err := twin(p.Candidate)
	if err != nil {
		return err
	}
	c.First, c.Last = store.CutTime(c.First), store.CutTime(c.Last)
	for i := range c.Sightings {
		c.Sightings[i].At = store.CutTime(c.Sightings[i].At)
	}
	if c.Verdict != nil {
		c.Verdict.At = store.CutTime(c.Verdict.At)
	}
	s.candidates[c.ID] = c
	return nil
}

func (s *state) Links(context.Context) ([]catalog.Link, error) { return twins(sortedValues(s.links)) }

func (s *state) PutLink(_ context.Context, p catalog.PutLink) error {
	if _, ok := s.servers[p.Link.Server]; !ok {
		return catalog.Unknown(p.Link.Server)
	}
	l := p.Link
	l.Verdict.At = store.CutTime(l.Verdict.At)
	s.links[l.Digest] = l
	return nil
}

func (s *state) AllPins(context.Context) ([]catalog.Pins, error) { return twins(sortedValues(s.pins)) }

func (s *state) PinsOf(_ context.Context, p catalog.PinsOf) (catalog.Pins, error) {
	pins, ok := s.pins[p.Server]
	if !ok {
		return catalog.Pins{}, catalog.PinsNone(p.Server)
	}
	return twin(pins)
}

func (s *state) PutPins(_ context.Context, p catalog.PutPins) error {
	if _, ok := s.servers[p.Pins.Server]; !ok {
		return catalog.Unknown(p.Pins.Server)
	}
	pins, err := twin(p.Pins)
	if err != nil {
		return err
	}
	pins.Taken = store.CutTime(pins.Taken)
	s.pins[pins.Server] = pins
	return nil
}

func (s *state) AllOffers(context.Context) ([]catalog.Offer, error) {
	return twins(sortedValues(s.offers))
}

func (s *state) OfferOf(_ context.Context, p catalog.OfferOf) (catalog.Offer, error) {
	return twin(s.offers[p.Server])
}

func (s *state) PutOffer(_ context.Context, p catalog.PutOffer) error {
	offer, err := twin(p.Offer)
	if err != nil {
		return err
	}
	offer.Seen = store.CutTime(offer.Seen)
	s.offers[offer.Server] = offer
	return nil
}
