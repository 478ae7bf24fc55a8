package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"mcpx/internal/event"
	"mcpx/internal/fault"
)

// The statements of the log. Each begins with the columns of scanEvent; a page by ref walks event_refs, which is in
// order of seq, too.
const (
	sqlEventHead = `SELECT e.seq, e.at_us, e.kind, e.principal, e.client, e.channel, e.refs, e.summary, e.body_sha256, e.prev, e.hash, b.body
		FROM events e LEFT JOIN event_bodies b ON b.seq = e.seq WHERE e.seq = (SELECT max(seq) FROM events)`
	sqlEvents = `SELECT e.seq, e.at_us, e.kind, e.principal, e.client, e.channel, e.refs, e.summary, e.body_sha256, e.prev, e.hash, b.body
		FROM events e LEFT JOIN event_bodies b ON b.seq = e.seq
		WHERE e.seq > ? AND e.at_us >= ? ORDER BY e.seq LIMIT ?`
	sqlEventsOfArea = `SELECT e.seq, e.at_us, e.kind, e.principal, e.client, e.channel, e.refs, e.summary, e.body_sha256, e.prev, e.hash, b.body
		FROM events e LEFT JOIN event_bodies b ON b.seq = e.seq
		WHERE e.area = ?1 AND e.seq > ?3 AND e.at_us >= ?4 AND (?2 = '' OR e.kind = ?2) ORDER BY e.seq LIMIT ?5`
	sqlEventsAbout = `SELECT e.seq, e.at_us, e.kind, e.principal, e.client, e.channel, e.refs, e.summary, e.body_sha256, e.prev, e.hash, b.body
		FROM event_refs r CROSS JOIN events e ON e.seq = r.seq LEFT JOIN event_bodies b ON b.seq = e.seq
		WHERE r.name = ?1 AND r.value = ?2 AND r.seq > ?6 AND e.at_us >= ?7
		AND (?4 = '' OR e.area = ?4) AND (?5 = '' OR e.kind = ?5)
		AND NOT EXISTS (SELECT 1 FROM json_each(?3) q WHERE NOT EXISTS
			(SELECT 1 FROM event_refs o WHERE o.name = q.key AND o.value = q.value AND o.seq = r.seq))
		ORDER BY r.seq LIMIT ?8`
	sqlInsertEvent = `INSERT INTO events (seq, at_us, kind, principal, client, channel, refs, summary, body_sha256, prev, hash)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlInsertRef  = `INSERT INTO event_refs (name, value, seq) VALUES (?, ?, ?)`
	sqlInsertBody = `INSERT INTO event_bodies (seq, body) VALUES (?, ?)`
	sqlBodies     = `SELECT e.seq, e.at_us, e.kind, e.principal, e.client, e.channel, e.refs, e.summary, e.body_sha256, e.prev, e.hash, NULL, length(b.body)
		FROM event_bodies b CROSS JOIN events e ON e.seq = b.seq WHERE b.seq > ? AND e.at_us < ? ORDER BY b.seq LIMIT ?`
	sqlDropBody = `DELETE FROM event_bodies WHERE seq = ?`
	sqlChainEnd = `SELECT seq, hash FROM events WHERE seq = (SELECT max(seq) FROM events)`
)

// The same pages, the newest first.
const (
	sqlEventsBefore = `SELECT e.seq, e.at_us, e.kind, e.principal, e.client, e.channel, e.refs, e.summary, e.body_sha256, e.prev, e.hash, b.body
		FROM events e LEFT JOIN event_bodies b ON b.seq = e.seq
		WHERE e.seq < ? AND e.at_us >= ? ORDER BY e.seq DESC LIMIT ?`
	sqlEventsOfAreaBefore = `SELECT e.seq, e.at_us, e.kind, e.principal, e.client, e.channel, e.refs, e.summary, e.body_sha256, e.prev, e.hash, b.body
		FROM events e LEFT JOIN event_bodies b ON b.seq = e.seq
		WHERE e.area = ?1 AND e.seq < ?3 AND e.at_us >= ?4 AND (?2 = '' OR e.kind = ?2) ORDER BY e.seq DESC LIMIT ?5`
	sqlEventsAboutBefore = `SELECT e.seq, e.at_us, e.kind, e.principal, e.client, e.channel, e.refs, e.summary, e.body_sha256, e.prev, e.hash, b.body
		FROM event_refs r CROSS JOIN events e ON e.seq = r.seq LEFT JOIN event_bodies b ON b.seq = e.seq
		WHERE r.name = ?1 AND r.value = ?2 AND r.seq < ?6 AND e.at_us >= ?7
		AND (?4 = '' OR e.area = ?4) AND (?5 = '' OR e.kind = ?5)
		AND NOT EXISTS (SELECT 1 FROM json_each(?3) q WHERE NOT EXISTS
			(SELECT 1 FROM event_refs o WHERE o.name = q.key AND o.value = q.value AND o.seq = r.seq))
		ORDER BY r.seq DESC LIMIT ?8`
)

func scanEvent(row scanner) (event.Event, error) { return scanEventAnd(row) }

// scanEventAnd reads an event and what stands after it in the row.
func scanEventAnd(row scanner, more ...any) (event.Event, error) {
	var (
		e    event.Event
		at   int64
		refs string
		body []byte
	)
	err := row.Scan(append([]any{
		&e.Seq, &at, &e.Kind, &e.Actor.Principal, &e.Actor.Client, &e.Actor.Channel, &refs, &e.Summary, &e.BodySHA256, &e.Prev, &e.Hash, &body,
	}, more...)...)
	if err != nil {
		return e, err
	}
	e.At, e.Body = fromMicros(at), body
	if refs != "" {
		// Refs that do not parse are none: the chain then says that the envelope was changed, which is what has happened.
		_ = json.Unmarshal([]byte(refs), &e.Refs)
	}
	return e, nil
}

// EventHead is the last event.
func (t *tx) EventHead(ctx context.Context) (event.Event, error) {
	e, err := scanEvent(t.row(ctx, sqlEventHead))
	if errors.Is(err, sql.ErrNoRows) {
		return event.Event{}, nil
	}
	return e, describe(err, t.path)
}

// Events is one page.
func (t *tx) Events(ctx context.Context, p event.ListEvents) ([]event.Event, error) {
	area, _, exact := strings.Cut(p.Kind, ".")
	kind := ""
	if exact {
		kind = p.Kind
	}
	since, from := micros(p.Since), p.After
	about, ofArea, plain := sqlEventsAbout, sqlEventsOfArea, sqlEvents
	if p.Before > 0 {
		from, about, ofArea, plain = p.Before, sqlEventsAboutBefore, sqlEventsOfAreaBefore, sqlEventsBefore
	}
	if len(p.Refs) > 0 {
		first := rarest(p.Refs)
		all, err := json.Marshal(p.Refs)
		if err != nil {
			return nil, fault.New(fault.Internal, "store-failed").Saying("the refs to look for cannot be written").Because(err)
		}
		return rows(ctx, t, scanEvent, about, first, p.Refs[first], string(all), area, kind, from, since, p.PageLimit())
	}
	if area != "" {
		return rows(ctx, t, scanEvent, ofArea, area, kind, from, since, p.PageLimit())
	}
	return rows(ctx, t, scanEvent, plain, from, since, p.PageLimit())
}

// rarest is the ref that fewest events are likely to have: a server, an agent or a path comes up all the time.
func rarest(refs event.Refs) event.Ref {
	for _, often := range []event.Ref{event.RefAgent, event.RefServer, event.RefPath} {
		if _, ok := refs[often]; ok && len(refs) > 1 {
			refs = maps.Clone(refs)
			delete(refs, often)
		}
	}
	return slices.Min(slices.Collect(maps.Keys(refs)))
}

// AppendEvent gives the draft the next place. The transaction is the only writer, so the end of the chain cannot move
// between the look at it and the insert.
func (t *tx) AppendEvent(ctx context.Context, d event.Draft) (event.Event, error) {
	if t.last.Seq == 0 {
		err := t.row(ctx, sqlChainEnd).Scan(&t.last.Seq, &t.last.Hash)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return event.Event{}, describe(err, t.path)
		}
	}
	e, err := event.Seal(t.last, d)
	if err != nil {
		return event.Event{}, err
	}
	refs := ""
	if len(e.Refs) > 0 {
		data, err := json.Marshal(e.Refs)
		if err != nil {
			return event.Event{}, fault.New(fault.Internal, "store-failed").Saying("the event %s cannot be stored", e.Kind).Because(err)
		}
		refs = string(data)
	}
	err = t.exec(ctx, sqlInsertEvent, e.Seq, micros(e.At), e.Kind, e.Actor.Principal, e.Actor.Client, e.Actor.Channel, refs, e.Summary,
		e.BodySHA256, e.Prev, e.Hash)
	if err != nil {
		return event.Event{}, err
	}
	for name, value := range e.Refs {
		if err := t.exec(ctx, sqlInsertRef, name, value, e.Seq); err != nil {
			return event.Event{}, err
		}
	}
	if e.Body != nil {
		if err := t.exec(ctx, sqlInsertBody, e.Seq, []byte(e.Body)); err != nil {
			return event.Event{}, err
		}
	}
	t.last = e
	return e, nil
}

// Bodies is one page of the events that have their body.
func (t *tx) Bodies(ctx context.Context, p event.ListBodies) ([]event.Stored, error) {
	return rows(ctx, t, func(row scanner) (s event.Stored, err error) {
		s.Event, err = scanEventAnd(row, &s.Size)
		return s, err
	}, sqlBodies, p.After, micros(p.Before), p.PageLimit())
}

// DropBodies removes bodies.
func (t *tx) DropBodies(ctx context.Context, p event.DropBodies) error {
	for _, seq := range p.Seqs {
		if err := t.exec(ctx, sqlDropBody, seq); err != nil {
			return err
		}
	}
	return nil
}
