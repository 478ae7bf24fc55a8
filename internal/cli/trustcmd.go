package cli

import (
	"context"
	"io"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/session"
)

var projectTrust = Command{
	Path: "project trust", Short: "Agree to what the repository of a project can start", Op: "trust.decide", Args: "NAME", Min: 1, Max: 1, Complete: projectNames,
	Long: "It shows on your terminal what the files of the repository name: each server with its command, URL and variables, each\n" +
		"skill, hook and policy file. Before you agree, nothing of it is started, not even to list tools. You type a code back,\n" +
		"as for an approval. The yes is about exactly what was shown: what changes needs another one, what stays goes on. The\n" +
		"programs themselves are not a part of it. --json only shows.",
	Example: "mcpx project trust shop\nmcpx project trust shop --revoke",
	Flags:   []Flag{{Name: "revoke", Kind: BoolFlag, Usage: "trust it no more; what runs of it ends"}, noteFlag},
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		in := api.TrustProject{Project: a.Pos(0), Note: a.String("note"), Revoke: a.Bool("revoke")}
		shown, err := service.ProjectTrust(ctx, api.ProjectRef{Project: in.Project})
		if err != nil {
			return err
		}
		decides := !in.Revoke && shown.State != session.Trusted && len(shown.Entries) > 0
		if !in.Revoke && (e.json || !decides) {
			return e.Show(shown, func(w io.Writer) { e.trustText(w, looks{e.color}, shown) })
		}
		if decides {
			if err := e.agreeToTrust(ctx, shown); err != nil {
				return err
			}
			in.Digest = shown.Digest
		}
		out, err := service.TrustProject(e.operation(ctx), in)
		if err != nil {
			return err
		}
		return e.Show(out, func(w io.Writer) {
			line(w, "%s is %s.", plain(out.Project), out.State)
			e.next(w, out.Next)
		})
	},
}

// agreeToTrust shows a repository to the person and takes the answer.
func (e *Env) agreeToTrust(ctx context.Context, shown api.ProjectTrust) error {
	command := "mcpx project trust " + shown.Project
	p, err := e.person(command)
	if err != nil {
		return err
	}
	defer p.leave()
	e.trustText(p, looks{e.ttyColor}, shown)
	line(p, "")
	yes, err := p.confirm(ctx, "let "+plain(shown.Project)+" start this")
	if err == nil && !yes {
		return notConfirmed(command)
	}
	return err
}

// trustText shows what a person agrees to.
func (e *Env) trustText(w io.Writer, l looks, t api.ProjectTrust) {
	line(w, "%s  %s", l.paint(bold, plain(t.Project)), l.paint(trustColors[t.State], string(t.State)))
	line(w, "path    %s", plain(t.Path))
	line(w, "digest  %s", t.Digest)
	if !t.Since.IsZero() {
		line(w, "since   %s, by %s", stamp(t.Since), t.Approval)
	}
	if len(t.Entries) == 0 {
		line(w, "Nothing in the repository names something to run.")
		return
	}
	line(w, "")
	for row := range strings.SplitSeq(strings.TrimSuffix(t.Text(), "\n"), "\n") {
		line(w, "%s", plain(row))
	}
}

var trustColors = map[session.TrustState]string{session.Trusted: green, session.Changed: yellow, session.Untrusted: dim}
