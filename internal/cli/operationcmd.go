package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"mcpx/internal/api"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
)

// Flags of lists of what agents do.
var (
	ofSession = Flag{Name: "session", Kind: StringFlag, Value: "SESSION", Usage: "only of SESSION, with its whole id"}
	atMost    = Flag{Name: "limit", Kind: IntFlag, Value: "N", Usage: "at most N"}
	before    = Flag{Name: "before", Kind: IntFlag, Value: "N", Usage: "go on behind the page that gave N"}
)

var ofPrincipal = Flag{Name: "principal", Kind: StringFlag, Value: "NAME", Usage: "of the calls of NAME (default: your own)"}

var operationList = Command{
	Path: "operation list", Short: "List what agents do at /mcp, the newest first", Op: "operation.list",
	Long:    "Without --all or --state, the ones that have no known end: waiting for a person, under way, or with an unknown outcome.",
	Example: "mcpx operation list\nmcpx operation list --all --session rs_01J",
	Flags: []Flag{
		{Name: "state", Kind: StringFlag, Value: "STATE", Usage: "claimed, dispatched, succeeded, failed or unknown"},
		{Name: "all", Kind: BoolFlag, Usage: "in every state"},
		ofSession, atMost, before,
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		page, err := service.Operations(ctx, api.OperationsQuery{
			State: a.String("state"), All: a.Bool("all"), Session: a.String("session"), Limit: a.Int("limit"), Before: a.Int("before"),
		})
		if err != nil {
			return err
		}
		return e.Show(page, func(w io.Writer) {
			if len(page.Operations) == 0 {
				line(w, "No operations.")
			} else {
				rows := make([][]cell, 0, len(page.Operations))
				for _, o := range page.Operations {
					rows = append(rows, []cell{{o.ID, bold}, operationState(o), {o.Tool, ""}, {stamp(o.Claimed), ""}, {plain(o.Namespace), ""}, {dash(o.Session), ""}})
				}
				e.table(w, []string{"OPERATION", "STATE", "TOOL", "CLAIMED", "PRINCIPAL", "SESSION"}, rows)
			}
			e.goesOn(page.Before)
			e.next(w, page.Next)
		})
	},
}

// goesOn says how a list goes on, when it does.
func (e *Env) goesOn(before int) {
	if before > 0 {
		e.Note("There are more: add --before %d", before)
	}
}

func operationState(o operation.Operation) cell {
	if o.Hold != "" {
		return cell{"waits for a person", yellow}
	}
	return cell{string(o.State), map[operation.State]string{operation.Succeeded: green, operation.Failed: red, operation.Unknown: yellow}[o.State]}
}

var operationShow = Command{
	Path: "operation show", Short: "Show one operation at /mcp and what it answered", Op: "operation.show", Args: "OPERATION", Min: 1, Max: 1,
	Example: "mcpx operation show edit-readme-1",
	Flags:   []Flag{ofPrincipal},
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		view, err := service.Operation(ctx, api.OperationRef{Operation: a.Pos(0), Principal: a.String("principal")})
		if err != nil {
			return err
		}
		return e.Show(view, func(w io.Writer) { e.operationText(w, view) })
	},
}

func (e *Env) operationText(w io.Writer, view api.OperationView) {
	state := operationState(view.Operation)
	line(w, "%s  %s", e.paint(bold, view.ID), e.paint(state.color, state.text))
	facts := [][2]string{{"tool", view.Tool}, {"principal", plain(view.Namespace)}, {"claimed", stamp(view.Claimed)}}
	if view.Session != "" {
		facts = append(facts, [2]string{"session", view.Session})
	}
	if view.Approval != "" {
		facts = append(facts, [2]string{"approval", view.Approval})
	}
	begun := "never"
	if !view.Begun.IsZero() {
		begun = stamp(view.Begun)
	}
	facts = append(facts, [2]string{"begun", begun})
	if p := view.Progress; p != nil {
		done := fmt.Sprintf("%d of %d paths", p.Applied, p.Of)
		if p.Undone > 0 {
			done += fmt.Sprintf(", %d taken back", p.Undone)
		}
		facts = append(facts, [2]string{"done", done})
	}
	if !view.Ended.IsZero() {
		facts = append(facts, [2]string{"ended", stamp(view.Ended)})
	}
	if view.Code != "" {
		facts = append(facts, [2]string{"code", view.Code})
	}
	if view.Attempts > 1 {
		facts = append(facts, [2]string{"attempts", strconv.Itoa(view.Attempts)})
	}
	pairs(w, facts)
	if len(view.Args) > 0 {
		line(w, "\ncall\n  %s", plain(string(view.Args)))
	}
	if len(view.Result) > 0 {
		line(w, "\nanswer\n  %s", plain(string(view.Result)))
	}
	e.next(w, view.Next)
}

var operationResolve = Command{
	Path: "operation resolve", Short: "Say how an operation ended that nobody knows the outcome of", Op: "operation.resolve", Args: "OPERATION", Min: 1, Max: 1,
	Long: "Look first at what is there. done: it happened; not_done: nothing of it did; abandon: leave everything as it is. With\n" +
		"abandon, an operation that waits for a person ends without having begun, and its question is taken back.",
	Example: "mcpx operation resolve edit-readme-1 --verdict done",
	Flags:   []Flag{{Name: "verdict", Kind: StringFlag, Value: "VERDICT", Usage: "done, not_done or abandon"}, ofPrincipal},
	Run: func(ctx context.Context, e *Env, a Args) error {
		if a.String("verdict") == "" {
			return fault.New(fault.Invalid, "verdict-missing").Saying("say what you found").Hinting("add --verdict done, --verdict not_done or --verdict abandon")
		}
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		view, err := service.ResolveOperation(e.operation(ctx), api.ResolveOperation{
			Operation: a.Pos(0), Principal: a.String("principal"), Verdict: operation.Verdict(a.String("verdict")),
		})
		if err != nil {
			return err
		}
		return e.Show(view, func(w io.Writer) { e.operationText(w, view) })
	},
}
