package clientfile

import (
	"errors"
	"maps"
	"slices"

	"mcpx/internal/atomicfile"
	"mcpx/internal/converge"
)

// follow drafts a change of a file that receipts of the same order have written. Plans that a person approved together
// bind one file as it was before all of them, and the first that is applied changes it: a later one fits as long as nobody
// but us has written the file since, and it does the same to the same entries (docs/decisions/0025-plans-of-one-file.md).
// why is the reason for which it does not fit the file as it is.
func (f *Files) follow(look converge.Look, c converge.Change, real string, now atomicfile.Content, own []converge.Receipt, why error) (drafted, error) {
	first, ours, err := f.beforeOurs(real, now, own)
	if err != nil {
		return drafted{}, err
	}
	wholeFile := slices.ContainsFunc(c.Steps, func(s converge.Step) bool { return s.Op == converge.StepRevert || s.Op == converge.StepFile })
	if !ours || wholeFile {
		return drafted{}, why
	}
	seen, err := f.fits(look, c, first)
	if err != nil {
		return drafted{}, err
	}
	dr, err := f.draft(look, converge.Drafting{Agent: c.Agent, Path: c.Path, Steps: c.Steps}, now.Data, !now.Absent)
	if err != nil {
		return drafted{}, stale(c).Because(err)
	}
	if !dr.like(seen) {
		return drafted{}, stale(c).Because(errors.New("behind the plans before it the change would be another one"))
	}
	dr.change.Notes = append(dr.change.Notes, noteOf("plans-together", "another plan of the same command wrote the file right before: the difference here is the one that was written"))
	return dr, nil
}

// beforeOurs is the content of a file before the first of our receipts. False: they did not write it, or it is not exactly
// what the last of them left, each from what the one before left.
func (f *Files) beforeOurs(real string, now atomicfile.Content, own []converge.Receipt) (first atomicfile.Content, ours bool, err error) {
	var left atomicfile.State
	for _, r := range own {
		for _, w := range r.Files {
			if w.Real != real {
				continue
			}
			if ours && left != stateOf(w.Before) {
				return first, false, nil
			}
			if !ours {
				if first, err = f.beforeOf(r.ID, w); err != nil {
					return first, false, err
				}
			}
			ours, left = true, stateOf(w.After)
		}
	}
	return first, ours && left.Is(now), nil
}

func stateOf(e converge.Expected) atomicfile.State {
	return atomicfile.State{Absent: e.Absent, SHA256: e.SHA256}
}

// like says whether two changes do the same to the same entries, and lose nothing that the other one keeps.
func (d drafted) like(seen drafted) bool {
	lost := slices.ContainsFunc(d.change.Notes, func(n converge.Note) bool {
		return !slices.ContainsFunc(seen.change.Notes, func(old converge.Note) bool { return old.Code == n.Code })
	})
	return !lost && sameEntries(d.was, seen.was) && sameEntries(d.change.Leaves, seen.change.Leaves) && maps.Equal(d.moves, seen.moves)
}

// sameEntries compares entries and what they say; in a list their numbers may be others.
func sameEntries(a, b []converge.Bound) bool {
	return slices.EqualFunc(a, b, func(x, y converge.Bound) bool {
		return x.Digest == y.Digest && slices.Equal(x.At[:len(x.At)-1], y.At[:len(y.At)-1])
	})
}
