package sqlite

import (
	"context"

	"mcpx/internal/catalog"
	"mcpx/internal/store"
)

// The statements of candidates, links, pins and offers.
const (
	sqlCandidates    = `SELECT body FROM candidates WHERE id > ? ORDER BY id LIMIT ?`
	sqlCandidatesIn  = `SELECT body FROM candidates WHERE state = ? AND id > ? ORDER BY id LIMIT ?`
	sqlCandidateByID = `SELECT body FROM candidates WHERE id >= ? AND id < ? ORDER BY id LIMIT 2`
	sqlPutCandidate  = `INSERT INTO candidates (id, state, body) VALUES (?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET state = excluded.state, body = excluded.body`

	sqlLinks   = `SELECT body FROM links WHERE digest > '' ORDER BY digest`
	sqlPutLink = `INSERT INTO links (digest, server_id, body) VALUES (?, ?, ?)
		ON CONFLICT (digest) DO UPDATE SET server_id = excluded.server_id, body = excluded.body`

	sqlPins    = `SELECT body FROM pins WHERE server_id > '' ORDER BY server_id`
	sqlPinsOf  = `SELECT body FROM pins WHERE server_id = ?`
	sqlPutPins = `INSERT INTO pins (server_id, body) VALUES (?, ?) ON CONFLICT (server_id) DO UPDATE SET body = excluded.body`

	sqlOffers   = `SELECT body FROM offers WHERE server_id > '' ORDER BY server_id`
	sqlOfferOf  = `SELECT body FROM offers WHERE server_id = ?`
	sqlPutOffer = `INSERT INTO offers (server_id, body) VALUES (?, ?) ON CONFLICT (server_id) DO UPDATE SET body = excluded.body`
)

// Candidates is one page in order of id.
func (t *tx) Candidates(ctx context.Context, p catalog.ListCandidates) ([]catalog.Candidate, error) {
	scan := scanDocument[catalog.Candidate]
	if p.State != "" {
		return rows(ctx, t, scan, sqlCandidatesIn, p.State, p.After, p.PageLimit())
	}
	return rows(ctx, t, scan, sqlCandidates, p.After, p.PageLimit())
}

// CandidateByID finds one.
func (t *tx) CandidateByID(ctx context.Context, p catalog.CandidateByID) (catalog.Candidate, error) {
	return byPrefix(ctx, t, scanDocument[catalog.Candidate], sqlCandidateByID, p.ID, func(c catalog.Candidate) string { return c.ID },
		catalog.CandidateUnknown, catalog.CandidateAmbiguous)
}

// PutCandidate writes a candidate whole.
func (t *tx) PutCandidate(ctx context.Context, p catalog.PutCandidate) error {
	c := p.Candidate
	c.First, c.Last = store.CutTime(c.First), store.CutTime(c.Last)
	c.Sightings = append([]catalog.Seen(nil), c.Sightings...)
	for i := range c.Sightings {
		c.Sightings[i].At = store.CutTime(c.Sightings[i].At)
	}
	if c.Verdict != nil {
		v := *c.Verdict
		v.At = store.CutTime(v.At)
		c.Verdict = &v
	}
	body, err := document(c)
	if err != nil {
		return err
	}
	return t.exec(ctx, sqlPutCandidate, c.ID, c.State, body)
}

// Links are all links.
func (t *tx) Links(ctx context.Context) ([]catalog.Link, error) {
	return rows(ctx, t, scanDocument[catalog.Link], sqlLinks)
}

// PutLink writes a link whole.
func (t *tx) PutLink(ctx context.Context, p catalog.PutLink) error {
	l := p.Link
	l.Verdict.At = store.CutTime(l.Verdict.At)
	body, err := document(l)
	if err != nil {
		return err
	}
	return t.ofServer(ctx, l.Server, sqlPutLink, l.Digest, l.Server, body)
}

// ofServer writes a row that ends with its server, whose absence is the only rule that it can break.
func (t *tx) ofServer(ctx context.Context, server, query string, args ...any) error {
	_, err := t.affect(ctx, query, args...)
	if isConstraint(err) {
		return catalog.Unknown(server).Because(err)
	}
	return describe(err, t.path)
}

// AllPins are the pins of every server that has some.
func (t *tx) AllPins(ctx context.Context) ([]catalog.Pins, error) {
	return rows(ctx, t, scanDocument[catalog.Pins], sqlPins)
}

// PinsOf gives the pins of a server.
func (t *tx) PinsOf(ctx context.Context, p catalog.PinsOf) (catalog.Pins, error) {
	found, err := rows(ctx, t, scanDocument[catalog.Pins], sqlPinsOf, p.Server)
	if err != nil {
		return catalog.Pins{}, err
	}
	if len(found) == 0 {
		return catalog.Pins{}, catalog.PinsNone(p.Server)
	}
	return found[0], nil
}

// PutPins writes the pins of a server whole.
func (t *tx) PutPins(ctx context.Context, p catalog.PutPins) error {
	v := p.Pins
	v.Taken = store.CutTime(v.Taken)
	body, err := document(v)
	if err != nil {
		return err
	}
	return t.ofServer(ctx, v.Server, sqlPutPins, v.Server, body)
}

// AllOffers are the offers of every server that has one.
func (t *tx) AllOffers(ctx context.Context) ([]catalog.Offer, error) {
	return rows(ctx, t, scanDocument[catalog.Offer], sqlOffers)
}

// OfferOf gives the offer of a server.
func (t *tx) OfferOf(ctx context.Context, p catalog.OfferOf) (catalog.Offer, error) {
	found, err := rows(ctx, t, scanDocument[catalog.Offer], sqlOfferOf, p.Server)
	if err != nil || len(found) == 0 {
		return catalog.Offer{}, err
	}
	return found[0], nil
}

// PutOffer writes the offer of a server whole.
func (t *tx) PutOffer(ctx context.Context, p catalog.PutOffer) error {
	o := p.Offer
	o.Seen = store.CutTime(o.Seen)
	body, err := document(o)
	if err != nil {
		return err
	}
	return t.exec(ctx, sqlPutOffer, o.Server, body)
}
