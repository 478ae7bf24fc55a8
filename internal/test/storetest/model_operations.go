package storetest

import (
	"cmp"
	"context"
	"slices"

	"mcpx/internal/operation"
	"mcpx/internal/store"
)

// ledger is the part of the model for operations and their results.
type ledger struct {
	operations map[operation.Name]operation.Operation
	results    map[operation.KeptByRef]operation.Kept
	opened     uint64
}

func newLedger() ledger {
	return ledger{operations: map[operation.Name]operation.Operation{}, results: map[operation.KeptByRef]operation.Kept{}}
}

func (s *state) OperationByName(_ context.Context, p operation.ByName) (operation.Operation, error) {
	o, ok := s.operations[p.Name]
	if !ok {
		return operation.Operation{}, operation.UnknownName(p.Name)
	}
	seq := o.Seq
	o, err := twin(o)
	o.Seq = seq
	return o, err
}

func (s *state) Operations(_ context.Context, p operation.ListOperations) ([]operation.Operation, error) {
	var all []operation.Operation
	for _, o := range s.operations {
		if p.Fits(o) && (p.Before == 0 || o.Seq < p.Before) {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b operation.Operation) int { return int(b.Seq) - int(a.Seq) })
	return all[:min(len(all), p.PageLimit())], nil
}

func (s *state) WholeOperations(_ context.Context, p operation.ListWhole) ([]operation.Operation, error) {
	var all []operation.Operation
	for _, o := range s.operations {
		if (o.State == operation.Succeeded || o.State == operation.Failed) && o.Whole() && o.Seq > p.After {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b operation.Operation) int { return int(a.Seq) - int(b.Seq) })
	return all[:min(len(all), p.PageLimit())], nil
}

func (s *state) PutOperation(_ context.Context, p operation.PutOperation) error {
	before, there := s.operations[p.Operation.Name]
	if there && (before.State == operation.Succeeded || before.State == operation.Failed) &&
		(before.State != p.Operation.State || before.Print != p.Operation.Print) {
		return operation.IsFinal(p.Operation.Name)
	}
	o, err := twin(p.Operation)
	if err != nil {
		return err
	}
	o.Claimed, o.Begun, o.Ended = store.CutTime(o.Claimed), store.CutTime(o.Begun), store.CutTime(o.Ended)
	o.Purged, o.Shrunk = store.CutTime(o.Purged), store.CutTime(o.Shrunk)
	if o.Seq = before.Seq; !there {
		s.opened++
		o.Seq = s.opened
	}
	s.operations[o.Name] = o
	return nil
}

func (s *state) ReleaseOperation(_ context.Context, p operation.ByName) error {
	if o, there := s.operations[p.Name]; there && o.State != operation.Claimed {
		return operation.IsFinal(p.Name)
	}
	delete(s.operations, p.Name)
	return nil
}

func (s *state) KeptResult(_ context.Context, p operation.KeptByRef) (operation.Kept, error) {
	k, ok := s.results[p]
	if !ok {
		return operation.Kept{}, operation.UnknownResult(p.Ref)
	}
	return k, nil
}

func (s *state) KeepResult(_ context.Context, p operation.KeepResult) error {
	r := p.Result
	r.Made, r.Bytes = store.CutTime(r.Made), slices.Clone(r.Bytes)
	s.results[operation.KeptByRef{Principal: r.Principal, Ref: r.Ref}] = r
	return nil
}

func (s *state) KeptBefore(_ context.Context, p operation.ListKept) ([]operation.KeptSize, error) {
	var all []operation.KeptSize
	order := func(a, b operation.KeptSize) int {
		return cmp.Or(a.Made.Compare(b.Made), cmp.Compare(a.Principal, b.Principal), cmp.Compare(a.Ref, b.Ref))
	}
	for at, k := range s.results {
		size := operation.KeptSize{KeptByRef: at, Made: k.Made, Size: int64(len(k.Bytes))}
		if k.Made.Before(store.CutTime(p.Before)) && order(size, p.After) > 0 {
			all = append(all, size)
		}
	}
	slices.SortFunc(all, order)
	return all[:min(len(all), p.PageLimit())], nil
}

func (s *state) DropResult(_ context.Context, p operation.KeptByRef) error {
	delete(s.results, p)
	return nil
}
