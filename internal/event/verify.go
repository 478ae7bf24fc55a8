package event

import "context"

// Why names what is wrong with an event of a log. The names are part of the interface.
type Why string

// What can be wrong, in the order in which it is looked for.
const (
	SeqGap      Why = "seq-gap"      // the number is not the next one: an event is missing, doubled or moved
	HashDiffers Why = "hash-differs" // the envelope was changed after it was sealed
	PrevDiffers Why = "prev-differs" // the event does not follow the one before: either of them was put in another's place
	BodyDiffers Why = "body-differs" // the body was changed; one that is not there is fine

	HeadDiffers Why = "head-differs" // what was noted as the last event is not there: the log was cut, or made anew

	// Only in an export:
	LineMalformed  Why = "line-malformed"  // the line is not as an export writes it, or stands after the closing line
	ClosingDiffers Why = "closing-differs" // the closing line does not fit the events before it
	ClosingMissing Why = "closing-missing" // the export was cut off
)

// Bad is the first event that is not as it was sealed.
type Bad struct {
	Seq uint64 `json:"seq"` // where it stands, counted from the event before; of a line of an export likewise
	Why Why    `json:"why"`
}

// Verify looks at a run of events that follows prev, the zero Event at the beginning of a log, and gives the first bad
// one; nil when all is well. What nobody could notice: events that are missing at the end. For that there is VerifyHead.
func Verify(prev Event, run []Event) *Bad {
	for _, e := range run {
		bad := func(why Why) *Bad { return &Bad{Seq: prev.Seq + 1, Why: why} }
		switch {
		case e.Seq != prev.Seq+1:
			return bad(SeqGap)
		case digest(e.envelope()) != e.Hash:
			return bad(HashDiffers)
		case e.Prev != prev.Hash:
			return bad(PrevDiffers)
		case e.Body != nil && digest(e.Body) != e.BodySHA256:
			return bad(BodyDiffers)
		}
		prev = e
	}
	return nil
}

// Verdict is what a look at a log found.
type Verdict struct {
	Closing
	Purged uint64 `json:"purged_bodies"`    // had a body that is no longer there
	Pruned Ranges `json:"pruned,omitempty"` // which they are; at most maxRanges, the first ones
	Bad    *Bad   `json:"bad,omitempty"`
}

// VerifyLog looks at the events from one Seq to another, page by page; from 0 is the first, to 0 the last. With a Bad
// in the verdict, the counts are those of the events before it.
func VerifyLog(ctx context.Context, r Reader, from, to uint64) (Verdict, error) {
	var v Verdict
	err := pages(ctx, r, from, to, func(prev Event, page []Event) bool {
		if v.Bad = Verify(prev, page); v.Bad != nil {
			page = page[:v.Bad.Seq-prev.Seq-1]
		}
		v.count(page)
		return v.Bad == nil
	})
	return v, err
}

// maxRanges bounds the ranges that a verdict lists: kinds are kept for different times, so a log can have as many as events.
const maxRanges = 100

// Head is the last event of a log, as it was noted in another place.
type Head struct {
	Seq  uint64 `json:"seq"` // 0: nothing was noted
	Hash string `json:"hash"`
}

// VerifyHead says whether a log still has the event that was noted as its last one; nil it has.
func VerifyHead(ctx context.Context, r Reader, noted Head) (*Bad, error) {
	if noted.Seq == 0 {
		return nil, nil
	}
	at, err := r.Events(ctx, ListEvents{After: noted.Seq - 1, Limit: 1})
	if err != nil || len(at) == 1 && at[0].Seq == noted.Seq && at[0].Hash == noted.Hash {
		return nil, err
	}
	head, err := r.EventHead(ctx)
	return &Bad{Seq: min(head.Seq+1, noted.Seq), Why: HeadDiffers}, err
}

// count takes events that are well into the verdict.
func (v *Verdict) count(run []Event) {
	for _, e := range run {
		v.add(e)
		if !e.Pruned() {
			continue
		}
		v.Purged++
		if more := v.Pruned.Add(e.Seq); len(more) <= maxRanges {
			v.Pruned = more
		}
	}
}

// pages gives the events of a range page by page, each with the event before it, until fn gives false.
func pages(ctx context.Context, r Reader, from, to uint64, fn func(prev Event, page []Event) bool) error {
	var prev Event
	if from > 1 {
		before, err := r.Events(ctx, ListEvents{After: from - 2, Limit: 1})
		if err != nil {
			return err
		}
		if len(before) == 1 {
			prev = before[0]
		}
		prev.Seq = from - 1 // a log that lacks the event before shows it by its hash
	}
	for {
		page, err := r.Events(ctx, ListEvents{After: prev.Seq})
		if err != nil {
			return err
		}
		last := len(page) < MaxEventPage
		if to > 0 {
			for i, e := range page {
				if e.Seq > to {
					page, last = page[:i], true
					break
				}
			}
		}
		if len(page) == 0 || !fn(prev, page) || last {
			return nil
		}
		prev = page[len(page)-1]
	}
}
