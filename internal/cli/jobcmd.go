package cli

import (
	"context"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
)

var jobList = Command{
	Path: "job list", Short: "List the commands that agents run, the newest first", Op: "job.list",
	Long:    "Without --all, those that have not ended. A job goes on when the daemon stops, restarts or is killed.",
	Example: "mcpx job list\nmcpx job list --all --session rs_01J",
	Flags: []Flag{
		{Name: "all", Kind: BoolFlag, Usage: "those that have ended, too"},
		ofSession, atMost, before,
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		page, err := service.Jobs(ctx, api.JobsQuery{Session: a.String("session"), All: a.Bool("all"), Limit: a.Int("limit"), Before: a.Int("before")})
		if err != nil {
			return err
		}
		return e.Show(page, func(w io.Writer) {
			if len(page.Jobs) == 0 {
				line(w, "No jobs.")
			} else {
				table := make([][]cell, 0, len(page.Jobs))
				for _, j := range page.Jobs {
					table = append(table, []cell{{j.ID, bold}, jobState(j), {stamp(j.Reserved), ""}, {short(j.Command.String(), 60), ""}})
				}
				e.table(w, []string{"JOB", "STATE", "SINCE", "COMMAND"}, table)
			}
			e.goesOn(page.Before)
			e.next(w, page.Next)
		})
	},
}

// jobState says how a job stands, in a few words.
func jobState(j operation.Job) cell {
	switch {
	case j.Code != nil && *j.Code == 0:
		return cell{string(j.State) + " 0", green}
	case j.Code != nil:
		return cell{string(j.State) + " " + strconv.Itoa(*j.Code), red}
	case j.Signal != "":
		return cell{string(j.State) + " " + j.Signal, yellow}
	case j.State.Final():
		return cell{string(j.State), red}
	}
	return cell{string(j.State), ""}
}

var jobShow = Command{
	Path: "job show", Short: "Show one command of an agent and the end of what it wrote", Op: "job.show", Args: "JOB", Min: 1, Max: 1,
	Example: "mcpx job show job_01J",
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		view, err := service.Job(ctx, api.JobRef{Job: a.Pos(0)})
		if err != nil {
			return err
		}
		return e.Show(view, func(w io.Writer) {
			state := jobState(view.Job)
			line(w, "%s  %s", e.paint(bold, view.ID), e.paint(state.color, state.text))
			facts := [][2]string{{"command", plain(view.Command.String())}, {"directory", plain(view.Command.Dir)}}
			for _, f := range [][2]string{{"session", view.Session}, {"operation", view.By.ID}, {"reason", view.Reason}, {"because", plain(view.Text)}} {
				if f[1] != "" {
					facts = append(facts, f)
				}
			}
			for _, f := range []struct {
				name string
				at   time.Time
			}{{"started", view.Started}, {"ended", view.Ended}} {
				if !f.at.IsZero() {
					facts = append(facts, [2]string{f.name, stamp(f.at)})
				}
			}
			pairs(w, facts)
			e.streamText(w, "stdout", view.Stdout)
			e.streamText(w, "stderr", view.Stderr)
			e.next(w, view.Next)
		})
	},
}

// streamText shows the end of a stream.
func (e *Env) streamText(w io.Writer, name string, s *api.JobStream) {
	if s == nil || s.Bytes == 0 {
		return
	}
	if s.Offset > 0 {
		line(w, "\n%s, from byte %d of %d", name, s.Offset, s.Bytes)
	} else {
		line(w, "\n%s", name)
	}
	for text := range strings.SplitSeq(strings.TrimSuffix(s.Text, "\n"), "\n") {
		line(w, "  %s", plain(text))
	}
}

var jobLogs = Command{
	Path: "job logs", Short: "Show all that a command of an agent wrote", Op: "job.logs", Args: "JOB", Min: 1, Max: 1,
	Long:    "On a terminal nothing that it wrote controls the terminal; elsewhere its bytes arrive as they are.",
	Example: "mcpx job logs job_01J\nmcpx job logs job_01J --stream stderr --follow",
	Flags: []Flag{
		{Name: "stream", Kind: StringFlag, Default: "stdout", Choices: []string{"stdout", "stderr"}, Usage: "which of the two"},
		{Name: "follow", Letter: "f", Kind: BoolFlag, Usage: "stay until the command has ended"},
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		in := api.JobLogsQuery{Job: a.Pos(0), Stream: a.String("stream"), Follow: a.Bool("follow")}
		return service.JobLogs(ctx, in, func(c api.JobChunk) error {
			switch {
			case e.json:
				return json.NewEncoder(e.Out).Encode(c)
			case e.shows:
				_, err = io.WriteString(e.Out, plain(string(c.Data)))
			default:
				_, err = e.Out.Write(c.Data)
			}
			return err
		})
	},
}

var jobStop = Command{
	Path: "job stop", Short: "End a command of an agent, with all that it started", Op: "job.stop", Args: "JOB", Min: 1, Max: 1,
	Long: "The command gets the signal; what of it has not ended after --grace is killed. Of a command that has ended, the processes\n" +
		"that it left behind are ended. It ends with 1 when one of them goes on all the same.",
	Example: "mcpx job stop job_01J\nmcpx job stop job_01J --signal INT --grace 30s",
	Flags: []Flag{
		{Name: "signal", Kind: StringFlag, Default: "TERM", Choices: []string{"TERM", "INT", "HUP", "QUIT", "KILL"}, Usage: "what it gets: TERM, INT, HUP, QUIT or KILL"},
		{Name: "grace", Kind: DurationFlag, Value: "D", Usage: "how long it has then, at most 1m (default 5s)"},
		operationFlag,
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		in := api.StopJob{Job: a.Pos(0), Signal: a.String("signal")}
		if a.Given("grace") {
			grace := a.Duration("grace")
			if grace%time.Second != 0 { // -1ns is never
				return fault.New(fault.Invalid, "flag-invalid").Saying("--grace is a number of seconds, at most 1m")
			}
			in.Grace = new(int(grace / time.Second))
		}
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		done := e.waiting("Waiting for the end of %s.", a.Pos(0))
		ctx = e.resuming(ctx, a)
		out, err := service.StopJob(ctx, in)
		done()
		if err != nil {
			return unanswered(ctx, err)
		}
		err = e.Show(out, func(w io.Writer) {
			line(w, "%s.", plain(out.Text))
			e.next(w, out.Next)
		})
		if err == nil && len(out.Survivors) > 0 {
			return errAnswerNo
		}
		return err
	},
}
