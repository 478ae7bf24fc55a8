package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/certify"
	"mcpx/internal/demo"
	"mcpx/internal/fault"
)

var certifyAgent = Command{
	Path: "certify", Short: "Try a real agent with mcpx, in a home of its own", Op: "agent.certify", Args: "AGENT", Min: 1, Max: 1,
	Complete: func(context.Context, *Env) []string { return certify.Agents() },
	Long: "The agent of this machine writes a configuration in a scratch home, with a stub in place of its model: no login is\n" +
		"needed, and your own files are not touched. It is run directly, through mcpx after a plan was applied, over a kill and\n" +
		"a restart of the daemon, and directly again after the rollback. You are asked to agree to each plan, as for your own\n" +
		"files. The certificate says what was seen, with the version and the hash of the program. Exit code 1 when something\n" +
		"did not work. AGENT is one of " + strings.Join(certify.Agents(), ", ") + ".",
	Example: "mcpx certify codex --keep\nmcpx certify claude_code --out certificates",
	Flags: []Flag{
		{Name: "out", Kind: StringFlag, Value: "DIR", Usage: "write the certificate into DIR: AGENT.json for programs, AGENT.md for people"},
		{Name: "keep", Kind: BoolFlag, Usage: "let the certificate count here: for 180 days, as long as the program is the same, plans for the agent may be applied by themselves where you allow that"},
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		p, err := e.person("mcpx certify " + a.Pos(0))
		if err != nil {
			return err
		}
		p.leave() // asked for now, not after a minute of trying
		exe, err := os.Executable()
		if err != nil {
			return fault.New(fault.Internal, "self-unknown").Saying("the path of this program is not known").Because(err)
		}
		terminal, err := e.tty()
		if err != nil {
			return err
		}
		defer terminal.Close()
		at, ok := terminal.(*os.File)
		if !ok {
			return fault.New(fault.Internal, "terminal-lost").Saying("the terminal cannot be handed on")
		}
		done, left, err := certify.Certify(ctx, certify.Options{
			Agent: strings.ReplaceAll(a.Pos(0), "-", "_"), Mcpx: exe, Version: e.Version, Path: e.Getenv("PATH"), Home: e.Getenv("HOME"),
			Demo: demo.Handler(e.Version, certify.SecondEcho), Terminal: at, Progress: e.Err, Now: e.Now,
		})
		if err != nil {
			return err
		}
		if dir := a.String("out"); dir != "" {
			if err := writeCertificate(dir, done); err != nil {
				return err
			}
		}
		if a.Bool("keep") {
			if err := e.keepCertificate(ctx, done); err != nil {
				return err
			}
		}
		if err := e.Show(done, func(w io.Writer) {
			line(w, "%s %s: %s, level %s", done.Agent, done.Version, done.Outcome, done.Level)
			if left != "" {
				line(w, "What it left is in %s; transcript.txt has every command with its output.", left)
			}
		}); err != nil {
			return err
		}
		if done.Outcome != certify.Passed {
			return errAnswerNo
		}
		return nil
	},
}

func writeCertificate(dir string, c certify.Certificate) error {
	base := filepath.Join(dir, c.Agent)
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(base+".json", c.JSON(), 0o644), os.WriteFile(base+".md", []byte(c.Markdown()), 0o644)); err != nil {
		return fault.New(fault.Unavailable, "certify-not-kept").Saying("the certificate cannot be written to %s", dir).Because(err)
	}
	return nil
}

// keepCertificate gives the certificate to the daemon of this home. One of a run that failed takes the place of an older
// one, too.
func (e *Env) keepCertificate(ctx context.Context, c certify.Certificate) error {
	service, err := e.API(ctx)
	if err != nil {
		return err
	}
	_, err = service.KeepCertificate(e.operation(ctx), api.KeepCertificate{Agent: c.Agent, Certificate: c.JSON()})
	return err
}
