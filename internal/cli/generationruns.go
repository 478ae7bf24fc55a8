package cli

import (
	"context"
	"io"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/fault"
	"mcpx/internal/workspace"
)

// generationLook is how often a command that waits looks at what became of a producer or a consumer.
const generationLook = 200 * time.Millisecond

// timeoutFlag bounds what a command starts.
var timeoutFlag = Flag{Name: "timeout", Kind: DurationFlag, Value: "D", Usage: "end the command after D, at most 24h (default 1h)"}

// noWaitFlag leaves what a command starts to itself.
var noWaitFlag = Flag{Name: "no-wait", Kind: BoolFlag, Usage: "say that it has begun, and leave it to itself"}

var generationProduce = Command{
	Path: "generation produce", Short: "Run a command in a workspace and make a build of its outputs", Op: "generation.produce", Args: "WORKSPACE", Min: 1, Max: 1, Dash: true, Complete: workspaceNames,
	Long: "The command is judged by the policy like one of an agent. When it has ended with 0 and nothing that it started lives on,\n" +
		"its outputs are copied to files that nobody else has ever opened for writing, the validators run on this copy, and the\n" +
		"build is ready. The exit code is 1 when it is rejected; 3 when the policy asks for a person's yes, with the command to go on\n" +
		"with. It goes on when you interrupt this command.",
	Example: "mcpx generation produce ws_01J --output dist -- make dist\nmcpx generation produce ws_01J --output paper.pdf --validate 'test -s paper.pdf' -- latexmk paper.tex",
	Flags: []Flag{
		{Name: "output", Kind: StringsFlag, Value: "PATH", Usage: "a file or directory of the workspace that is sealed"},
		{Name: "validate", Kind: StringsFlag, Value: "COMMAND", Usage: "a COMMAND of the shell that has to succeed on the sealed outputs"},
		{Name: "input", Kind: StringsFlag, Value: "BUILD", Usage: "a BUILD, by its whole id, that the command finds in MCPX_INPUTS"},
		timeoutFlag, noWaitFlag, operationFlag,
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		in := api.ProduceGeneration{Workspace: a.Pos(0), Argv: a.Argv(), Outputs: a.Strings("output"), Validators: a.Strings("validate"), Inputs: a.Strings("input")}
		if !a.Given("operation") && (len(in.Argv) == 0 || len(in.Outputs) == 0) {
			return fault.New(fault.Invalid, "usage").Saying("a build needs a command, and what it produces").Hinting("`mcpx generation produce %s --output PATH -- COMMAND`", a.Pos(0))
		}
		var err error
		if in.Timeout, err = timeout(a); err != nil {
			return err
		}
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		under := e.resuming(ctx, a)
		out, err := service.ProduceGeneration(under, in)
		if err != nil || out.State == api.GenerationWaits || a.Bool("no-wait") {
			return e.showStarted(out, unanswered(under, err))
		}
		view, err := e.becomes(ctx, service, out.Candidate, func(v api.GenerationView) (string, bool) {
			return map[workspace.GenerationState]string{
				workspace.GenCandidate: "the producer runs; `mcpx job logs -f " + v.Job + "` shows what it writes", workspace.GenSealing: "its outputs are sealed", workspace.GenValidating: "the validators run",
			}[v.State], !v.State.UnderWay()
		})
		if err != nil {
			return err
		}
		err = e.Show(view, func(w io.Writer) { e.generationText(w, view) })
		if err == nil && view.State == workspace.GenRejected {
			return errAnswerNo
		}
		return err
	},
}

var generationConsume = Command{
	Path: "generation consume", Short: "Run a command on a build, for its verdict", Op: "generation.consume", Args: "BUILD", Min: 1, Max: 1, Dash: true, Complete: generationNames,
	Long: "BUILD is a whole id: a verdict is about bytes, and none are guessed. The command runs in the build, which it only reads.\n" +
		"All of it is hashed before and afterwards; exit code 0 of the command is the verdict pass, and every other one fail. The\n" +
		"exit code is 1 without a pass, and 3 when the policy asks for a person's yes.",
	Example: "mcpx generation consume b_01J9ZQ4T6W8R0V2X4Y6Z8A0C2E_f1d2d2f924e9 -- ./run-tests",
	Flags: []Flag{
		{Name: "copy", Kind: BoolFlag, Usage: "the command gets a copy that it may change"},
		{Name: "in", Kind: StringFlag, Value: "WORKSPACE", Usage: "run it in WORKSPACE; MCPX_BUILD says where the build is"},
		timeoutFlag, noWaitFlag, operationFlag,
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		in := api.ConsumeGeneration{Build: a.Pos(0), Argv: a.Argv(), Copy: a.Bool("copy"), Workspace: a.String("in")}
		if !a.Given("operation") && len(in.Argv) == 0 {
			return fault.New(fault.Invalid, "usage").Saying("a verdict needs a command").Hinting("`mcpx generation consume %s -- COMMAND`", a.Pos(0))
		}
		var err error
		if in.Timeout, err = timeout(a); err != nil {
			return err
		}
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		done := e.waiting("reading %s ...", a.Pos(0))
		under := e.resuming(ctx, a)
		out, err := service.ConsumeGeneration(under, in)
		done()
		if err != nil || out.State == api.GenerationWaits || a.Bool("no-wait") {
			return e.showStarted(out, unanswered(under, err))
		}
		var audit api.GenerationAudit
		_, err = e.becomes(ctx, service, in.Build, func(v api.GenerationView) (string, bool) {
			for _, one := range v.Audits {
				if one.ID == out.Audit {
					audit = one
				}
			}
			return "the consumer runs; `mcpx job logs -f " + out.Job + "` shows what it writes", audit.State.Final() && audit.ID != ""
		})
		if err != nil {
			return err
		}
		err = e.Show(audit, func(w io.Writer) {
			end := auditCell(audit.End())
			line(w, "%s  %s", e.paint(bold, audit.ID), e.paint(end.color, end.text))
			facts := [][2]string{{"build", audit.Build}, {"because", dash(audit.Why)}, {"before", dash(audit.Pre)}, {"after", dash(audit.Post)}, {"job", audit.Job}}
			pairs(w, facts)
			for _, warning := range out.Warnings {
				line(w, "warning  %s", plain(warning))
			}
			e.next(w, []string{"mcpx job logs " + audit.Job})
		})
		if err == nil && audit.Verdict != workspace.Pass {
			return errAnswerNo
		}
		return err
	},
}

// timeout is --timeout in seconds; 0 without it.
func timeout(a Args) (int, error) {
	if !a.Given("timeout") {
		return 0, nil
	}
	d := a.Duration("timeout")
	if d < time.Second || d%time.Second != 0 {
		return 0, fault.New(fault.Invalid, "flag-invalid").Saying("--timeout is a number of seconds, at most 24h")
	}
	return int(d / time.Second), nil
}

// becomes waits until a generation is as it is wanted. look says what is waited for, and whether it is so.
func (e *Env) becomes(ctx context.Context, service api.Service, ref string, look func(api.GenerationView) (string, bool)) (api.GenerationView, error) {
	begun, said := e.Now(), ""
	for {
		view, err := service.Generation(ctx, api.GenerationRef{Build: ref})
		if err != nil {
			return view, err
		}
		now, done := look(view)
		if done {
			return view, nil
		}
		if e.logs && now != said && e.Now().Sub(begun) > patience {
			e.Note("%s ...", now)
			said = now
		}
		select {
		case <-ctx.Done(): // the next look says so
		case <-time.After(generationLook):
		}
	}
}

// showStarted shows a producer or a consumer that is left to itself, or waits for a person.
func (e *Env) showStarted(out api.GenerationStarted, err error) error {
	if err != nil {
		return err
	}
	if err := e.Show(out, func(w io.Writer) {
		line(w, "%s.", plain(out.Text))
		for _, warning := range out.Warnings {
			line(w, "warning  %s", plain(warning))
		}
		e.next(w, out.Next)
	}); err != nil {
		return err
	}
	if out.State == api.GenerationWaits {
		return fault.New(fault.NeedsApproval, "generation-waits").Saying("%s", out.Text).Hinting("look at it with `mcpx approval show %s`", out.Approval)
	}
	return nil
}
