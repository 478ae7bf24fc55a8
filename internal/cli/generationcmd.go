package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/workspace"
)

var generationList = Command{
	Path: "generation list", Short: "List builds and candidates, the newest first", Op: "generation.list",
	Long: "A build is what a command in a workspace has produced, sealed: bytes that never change, with a name that says which they\n" +
		"are. A candidate becomes one, or is rejected. AUDIT is the verdict of the last command that looked at exactly these\n" +
		"bytes. Without --all, those that are there or under way.",
	Example: "mcpx generation list\nmcpx generation list --workspace ws_01J --all",
	Flags: []Flag{
		{Name: "project", Kind: StringFlag, Value: "PROJECT", Usage: "only of PROJECT, by its name, id or path"},
		{Name: "workspace", Kind: StringFlag, Value: "WORKSPACE", Usage: "only what was produced in WORKSPACE"},
		{Name: "producer", Kind: StringFlag, Value: "PRODUCER", Usage: "only of one PRODUCER: the same command with the same outputs"},
		{Name: "all", Kind: BoolFlag, Usage: "those that were rejected or released, too"},
		atMost, before,
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		page, err := service.Generations(ctx, api.GenerationsQuery{
			Project: a.String("project"), Workspace: a.String("workspace"), Producer: a.String("producer"), All: a.Bool("all"), Limit: a.Int("limit"), Before: a.Int("before"),
		})
		if err != nil {
			return err
		}
		return e.Show(page, func(w io.Writer) {
			if len(page.Generations) == 0 {
				line(w, "No builds.")
			} else {
				rows := make([][]cell, 0, len(page.Generations))
				for _, g := range page.Generations {
					rows = append(rows, []cell{
						{g.Name(), bold},
						generationState(g),
						auditCell(g.Last),
						{keptWord(g), ""},
						{dash(g.ProjectName), ""},
						{number(g.Files), ""},
						{size(g.Bytes), ""},
						{age(e.Now().Sub(g.Created)), ""},
						{short(strings.Join(g.Outputs, ", "), 50), ""},
					})
				}
				e.table(w, []string{"BUILD", "STATE", "AUDIT", "KEPT", "PROJECT", "FILES", "SIZE", "AGE", "OUTPUTS"}, rows)
			}
			e.goesOn(page.Before)
			e.next(w, page.Next)
		})
	},
}

func generationState(g api.Generation) cell {
	return cell{string(g.State), map[workspace.GenerationState]string{
		workspace.GenReady: green, workspace.GenCorrupt: red, workspace.GenRejected: red, workspace.GenSuperseded: dim, workspace.GenReleased: dim,
	}[g.State]}
}

func auditCell(end string) cell {
	return cell{dash(end), map[string]string{string(workspace.Pass): green, string(workspace.Fail): red, "evidence_lost": red, string(workspace.AuditInvalid): red}[end]}
}

func keptWord(g api.Generation) string {
	if g.Retained {
		return "yes"
	}
	return "-"
}

var generationShow = Command{
	Path: "generation show", Short: "Show a build: how it was made, and the verdicts about it", Op: "generation.show", Args: "BUILD", Min: 1, Max: 1, Complete: generationNames,
	Long: "BUILD is the id of a build or a candidate, or a beginning of it. The directory holds `tree`, the bytes, `manifest` with\n" +
		"the SHA-256 of each, and `statement.json`. `sha256sum` alone checks a build by its manifest: docs/generations.md.",
	Example: "mcpx generation show b_01J",
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		view, err := service.Generation(ctx, api.GenerationRef{Build: a.Pos(0)})
		if err != nil {
			return err
		}
		return e.Show(view, func(w io.Writer) { e.generationText(w, view) })
	},
}

func (e *Env) generationText(w io.Writer, v api.GenerationView) {
	state := generationState(v.Generation)
	line(w, "%s  %s", e.paint(bold, v.Name()), e.paint(state.color, state.text))
	facts := [][2]string{{"candidate", v.Candidate}, {"project", dash(v.ProjectName)}, {"workspace", workspace.Handle{ID: v.Workspace, Rev: v.Rev}.String()}, {"principal", plain(v.Principal)}}
	add := func(name, value string) {
		if value != "" {
			facts = append(facts, [2]string{name, value})
		}
	}
	add("rejected", plain(v.Why))
	add("because", plain(v.Text))
	if v.ID != "" {
		add("tree hash", v.TreeHash)
		add("directory", plain(v.Dir))
		add("holds", fmt.Sprintf("%d %s, %d bytes", v.Files, plural(v.Files, "file", "files"), v.Bytes))
	}
	add("outputs", plain(strings.Join(v.Outputs, "\n")))
	add("made from", strings.Join(v.Inputs, "\n"))
	var validators []string
	for _, one := range v.Validators {
		validators = append(validators, plain(strings.Join(one.Argv, " "))+"  "+validatorEnd(one))
	}
	add("validators", strings.Join(validators, "\n"))
	add("producer", v.Producer)
	add("job", v.Job)
	add("started", stamp(v.Created))
	add("ready", stamp(v.Ready))
	add("corrupt", stamp(v.Corrupted))
	if v.Retained {
		add("kept", "until it is released")
	}
	pairs(w, facts)
	if len(v.Audits) > 0 {
		line(w, "")
		rows := make([][]cell, 0, len(v.Audits))
		for _, one := range v.Audits {
			rows = append(rows, []cell{{one.ID, bold}, auditCell(one.End()), {dash(one.Why), ""}, {string(one.View), ""}, {one.Job, ""}, {stamp(one.Created), ""}})
		}
		e.table(w, []string{"AUDIT", "VERDICT", "WHY", "VIEW", "JOB", "SINCE"}, rows)
	}
	e.next(w, v.Next)
}

func validatorEnd(v workspace.Validator) string {
	switch {
	case v.Passed:
		return "passed"
	case v.Code != nil:
		return fmt.Sprintf("ended with %d", *v.Code)
	}
	return "did not end"
}

var generationVerify = Command{
	Path: "generation verify", Short: "Read a whole build and compare it with its manifest", Op: "generation.verify", Args: "BUILD", Min: 1, Max: 1, Complete: generationNames,
	Long: "Every byte is read, and nothing is believed because of a size or a time. The exit code is 1 when something differs; then\n" +
		"the build is corrupt for good, and its verdicts have lost their evidence. A large build takes a while: on a terminal it\n" +
		"says how far it has come.",
	Example: "mcpx generation verify b_01J\nmcpx generation verify b_01J --json",
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		var last api.GenerationCheck
		err = service.VerifyGeneration(ctx, api.GenerationRef{Build: a.Pos(0)}, func(c api.GenerationCheck) error {
			if last = c; !c.Done && e.logs {
				e.Note("%s of %s are read (%d %%)", size(c.Read), size(c.Bytes), 100*c.Read/max(c.Bytes, 1))
			}
			return nil
		})
		if err != nil {
			return err
		}
		err = e.Show(last, func(w io.Writer) {
			line(w, "%s.", plain(last.Text))
			line(w, "tree hash  %s", last.TreeHash)
			line(w, "read       %d %s, %d bytes, in %d ms", last.Files, plural(last.Files, "file", "files"), last.Read, last.TookMS)
			if d := last.Difference; d != nil {
				for _, part := range []struct {
					word  string
					paths []string
				}{{"changed", d.Changed}, {"added", d.Added}, {"gone", d.Gone}} {
					for _, path := range part.paths {
						line(w, "%-9s  %s", part.word, plain(filepath.Join("tree", path)))
					}
				}
			}
			e.next(w, last.Next)
		})
		if err == nil && !last.Same {
			return errAnswerNo
		}
		return err
	},
}

var generationRetain = Command{
	Path: "generation retain", Short: "Keep a build until it is released", Op: "generation.retain", Args: "BUILD", Min: 1, Max: 1, Complete: generationNames,
	Example: "mcpx generation retain b_01J",
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		out, err := service.RetainGeneration(e.operation(ctx), api.GenerationRef{Build: a.Pos(0)})
		return e.showGeneration(out, err)
	},
}

var generationRelease = Command{
	Path: "generation release", Short: "Give up the bytes of a build; its manifest and its verdicts are kept", Op: "generation.release", Args: "BUILD", Min: 1, Max: 1, Complete: generationNames,
	Long:    "The bytes do not come back. It is refused while a consumer or a producer works with the build.",
	Example: "mcpx generation release b_01J",
	Flags:   []Flag{{Name: "yes", Letter: "y", Kind: BoolFlag, Usage: "do not ask"}},
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		if !a.Bool("yes") {
			sure, err := e.Confirm(ctx, "Remove the bytes of "+a.Pos(0)+"?", "--yes")
			if err != nil || !sure {
				return err
			}
		}
		out, err := service.ReleaseGeneration(e.operation(ctx), api.GenerationRef{Build: a.Pos(0)})
		return e.showGeneration(out, err)
	},
}

func (e *Env) showGeneration(out api.GenerationChanged, err error) error {
	if err != nil {
		return err
	}
	return e.Show(out, func(w io.Writer) {
		line(w, "%s.", plain(out.Text))
		for _, warning := range out.Warnings {
			line(w, "warning  %s", plain(warning))
		}
		e.next(w, out.Next)
	})
}

// generationNames are the candidates for completion.
func generationNames(ctx context.Context, e *Env) []string {
	client, err := e.Daemon()
	if err != nil {
		return nil
	}
	page, err := client.Generations(ctx, api.GenerationsQuery{})
	if err != nil {
		return nil
	}
	var names []string
	for _, g := range page.Generations {
		names = append(names, g.Name())
	}
	return names
}
