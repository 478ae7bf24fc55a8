package storetest

import (
	"context"
	"slices"

	"mcpx/internal/operation"
	"mcpx/internal/store"
)

// yard is the part of the model for jobs.
type yard struct {
	jobs     map[string]operation.Job
	reserved uint64
}

func newYard() yard { return yard{jobs: map[string]operation.Job{}} }

func (s *state) JobByID(_ context.Context, p operation.JobByID) (operation.Job, error) {
	j, ok := s.jobs[p.ID]
	if !ok {
		return operation.Job{}, operation.UnknownJob(p.ID)
	}
	seq := j.Seq
	j, err := twin(j)
	j.Seq = seq
	return j, err
}

func (s *state) Jobs(_ context.Context, p operation.ListJobs) ([]operation.Job, error) {
	var all []operation.Job
	for _, j := range s.jobs {
		if p.Fits(j) && (p.Before == 0 || j.Seq < p.Before) {
			all = append(all, j)
		}
	}
	slices.SortFunc(all, func(a, b operation.Job) int { return int(b.Seq) - int(a.Seq) })
	return all[:min(len(all), p.PageLimit())], nil
}

func (s *state) PutJob(_ context.Context, p operation.PutJob) error {
	before, there := s.jobs[p.Job.ID]
	if there && before.State.Final() && before.State != p.Job.State {
		return operation.JobIsFinal(p.Job.ID)
	}
	j, err := twin(p.Job)
	if err != nil {
		return err
	}
	j.Reserved, j.Started, j.Ended, j.Cleared = store.CutTime(j.Reserved), store.CutTime(j.Started), store.CutTime(j.Ended), store.CutTime(j.Cleared)
	if j.Seq = before.Seq; !there {
		s.reserved++
		j.Seq = s.reserved
	}
	s.jobs[j.ID] = j
	return nil
}
