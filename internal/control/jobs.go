package control

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/store"
)

// maxJobTail is how much of the end of each stream one look at a job shows, in bytes.
const maxJobTail = 8000

// Jobs lists the commands that agents run or have run.
func (c *Control) Jobs(ctx context.Context, in api.JobsQuery) (api.JobPage, error) {
	if err := c.allow(ctx, "job.list"); err != nil {
		return api.JobPage{}, err
	}
	limit := min(rows(in.Limit), operation.MaxJobPage-1)
	list := operation.ListJobs{Session: in.Session, Live: !in.All, Before: uint64(in.Before), Limit: limit + 1}
	page := api.JobPage{Jobs: []operation.Job{}, Next: []string{}}
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		found, err := r.Jobs(ctx, list)
		found, page.Before = cut(found, limit, func(j operation.Job) uint64 { return j.Seq })
		page.Jobs = append(page.Jobs, found...)
		return err
	})
	if len(page.Jobs) > 0 {
		page.Next = append(page.Next, "mcpx job show "+page.Jobs[0].ID)
	}
	return page, err
}

// Job shows one job with the end of what it wrote.
func (c *Control) Job(ctx context.Context, in api.JobRef) (api.JobView, error) {
	if err := c.allow(ctx, "job.show"); err != nil {
		return api.JobView{}, err
	}
	view := api.JobView{Next: []string{}}
	err := c.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		view.Job, err = r.JobByID(ctx, operation.JobByID{ID: in.Job})
		return err
	})
	if err != nil {
		return api.JobView{}, err
	}
	if view.Stdout, err = c.jobTail(ctx, view.Job, operation.Stdout); err == nil {
		view.Stderr, err = c.jobTail(ctx, view.Job, operation.Stderr)
	}
	if view.By.ID != "" {
		view.Next = append(view.Next, "mcpx operation show "+view.By.ID)
	}
	return view, err
}

const (
	// maxJobChunk bounds one part of a stream that is sent, in bytes.
	maxJobChunk = 64 << 10
	// jobLookEvery is how often a stream that grows is looked at: nothing tells of bytes in a file.
	jobLookEvery = 200 * time.Millisecond
)

// JobLogs streams what a job wrote, and with follow goes on until the job has ended.
func (c *Control) JobLogs(ctx context.Context, in api.JobLogsQuery, emit func(api.JobChunk) error) error {
	if err := c.allow(ctx, "job.logs"); err != nil {
		return err
	}
	stream := cmp.Or(operation.Stream(in.Stream), operation.Stdout)
	if stream != operation.Stdout && stream != operation.Stderr {
		return fault.New(fault.Invalid, "request-invalid").Saying("%q is no stream", in.Stream).Hinting("stdout and stderr are")
	}
	for offset := int64(0); ; {
		var j operation.Job // read before its output: when it has ended, the output is whole
		err := c.cfg.DB.View(ctx, func(r store.Reader) (err error) {
			j, err = r.JobByID(ctx, operation.JobByID{ID: in.Job})
			return err
		})
		if err != nil {
			return err
		}
		var out operation.JobOutput
		if c.cfg.Output != nil && !j.Started.IsZero() {
			out, err = c.cfg.Output(ctx, operation.OutputAt{JobRef: j.JobRef, Stream: stream, Offset: offset, Max: maxJobChunk})
			if err != nil {
				return err
			}
		}
		if len(out.Data) > 0 {
			offset = out.Offset + int64(len(out.Data))
			if err := emit(api.JobChunk{Offset: out.Offset, Data: out.Data}); err != nil {
				return err
			}
			continue
		}
		if !in.Follow || j.State.Final() {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(jobLookEvery):
		}
	}
}

// StopJob ends a job.
func (c *Control) StopJob(ctx context.Context, in api.StopJob) (api.JobStopped, error) {
	if err := c.allow(ctx, "job.stop"); err != nil {
		return api.JobStopped{}, err
	}
	args := map[string]any{"job_id": in.Job}
	if in.Signal != "" {
		args["signal"] = in.Signal
	}
	if in.Grace != nil {
		args["grace_s"] = *in.Grace
	}
	out := api.JobStopped{Operation: api.OperationOf(ctx), Next: []string{"mcpx job show " + in.Job}}
	if _, err := c.tool(ctx, "stop_command", withID(ctx, args), &out); err != nil {
		return out, refusedJob(in.Job, err)
	}
	out.Text = fmt.Sprintf("%s has ended: %s", out.Job, out.State)
	if len(out.Survivors) > 0 {
		out.Text = fmt.Sprintf("%s is %s, and processes that it started go on: %s", out.Job, out.State, strings.Trim(fmt.Sprint(out.Survivors), "[]"))
	}
	return out, nil
}

// refusedJob is a refusal of a tool that acts on a job, for a person at a terminal.
func refusedJob(job string, err error) error {
	r := refusalIn(err)
	switch {
	case r == nil:
		return err
	case r.Code == operation.NotFound:
		return operation.UnknownJob(job)
	case r.Code == operation.OperationIDReused:
		return operationReused(r)
	case r.Code == operation.OutcomeUnknown:
		return fault.New(fault.UnknownOutcome, "job-unclear").Saying("%s", r.Message).Hinting("`mcpx job show %s` says whether it goes on", job)
	case r.Retry == fault.AfterWait || r.Retry == fault.SameID:
		return fault.New(fault.Unavailable, "job-unavailable").Saying("%s", r.Message).Hinting("try again when that has changed").Retrying(r.Retry)
	}
	return fault.New(fault.Invalid, "request-invalid").Saying("%s", r.Message)
}

// jobTail is the end of a stream; nil when there is none.
func (c *Control) jobTail(ctx context.Context, j operation.Job, stream operation.Stream) (*api.JobStream, error) {
	if c.cfg.Output == nil || j.Started.IsZero() {
		return nil, nil
	}
	out, err := c.cfg.Output(ctx, operation.OutputAt{JobRef: j.JobRef, Stream: stream, Offset: -maxJobTail, Max: maxJobTail})
	if fault.KindOf(err) == fault.NotFound {
		return nil, nil // it was cleared away
	}
	if err != nil {
		return nil, err
	}
	return &api.JobStream{Text: strings.ToValidUTF8(string(out.Data), "\uFFFD"), Offset: out.Offset, Bytes: out.Size, Dropped: out.Dropped}, nil
}
