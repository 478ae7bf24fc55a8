package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/converge"
	"mcpx/internal/fault"
	"mcpx/internal/process"
)

var daemonInstallService = Command{
	Path: "daemon install-user-service", Short: "Make the daemon start at each login", Op: "service.install",
	Long: "It makes a plan for a systemd user unit, or on macOS for a launchd agent, and shows it; nothing is written. --apply asks\n" +
		"you on your terminal, as `mcpx approval approve` does, and writes the file; `mcpx rollback` takes it back. Then it prints\n" +
		"the commands that start the service, and with --enable runs them. Stop a daemon that runs first (`mcpx daemon stop`):\n" +
		"the servers go on without it. --remove is the way back, with the same steps.",
	Example: "mcpx daemon install-user-service\nmcpx daemon install-user-service --apply --enable\nmcpx daemon install-user-service --remove --apply",
	Flags: []Flag{
		{Name: "apply", Kind: BoolFlag, Usage: "ask me now, and write the file"},
		{Name: "enable", Kind: BoolFlag, Usage: "with --apply: run the commands of the service manager too"},
		{Name: "remove", Kind: BoolFlag, Usage: "take back what was installed"},
		{Name: "binary", Kind: StringFlag, Value: "PATH", Usage: "path PATH of the mcpx that the service starts (default: that of the daemon)"},
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		if a.Bool("enable") && !a.Bool("apply") {
			return fault.New(fault.Invalid, "usage").Saying("--enable goes with --apply").Hinting("without both nothing is done but shown")
		}
		in, err := e.userService()
		if err != nil {
			return err
		}
		in.Remove = a.Bool("remove")
		if path := a.String("binary"); path != "" {
			if in.Program, err = filepath.Abs(path); err != nil {
				return fault.New(fault.Invalid, "usage").Saying("--binary %s is no path", path).Because(err)
			}
			if info, err := os.Stat(in.Program); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
				return fault.New(fault.Invalid, "binary-invalid").Saying("%s is no program", in.Program).Hinting("give the path of an mcpx that stays there")
			}
		}
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		view, err := service.InstallService(e.operation(ctx), in)
		if err != nil {
			return err
		}
		if !a.Bool("apply") {
			return e.showPlan(view)
		}
		if err := e.agreeToPlan(ctx, service, view); err != nil {
			return err
		}
		return e.applyService(ctx, service, view, in, a.Bool("enable"))
	},
}

// userService says what the service of this user would be.
func (e *Env) userService() (api.InstallService, error) {
	in := api.InstallService{Manager: converge.Systemd, Home: e.Getenv("HOME"), State: e.Getenv("MCPX_HOME")}
	if runtime.GOOS == "darwin" {
		in.Manager = converge.Launchd
	}
	if config := e.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(config) {
		in.Config = config
	}
	paths, err := e.Paths()
	in.Log = filepath.Join(paths.State, "log", "launchd.log")
	return in, err
}

// agreeToPlan asks the person about the plan, unless that was done before.
func (e *Env) agreeToPlan(ctx context.Context, service api.Service, view api.PlanView) error {
	if view.Approval == "" {
		return nil // nobody has to be asked
	}
	asked, err := service.Approval(ctx, api.ApprovalRef{Approval: view.Approval})
	if err != nil || asked.State != "pending" {
		return err // apply says what is wrong with another state
	}
	p, err := e.person("mcpx approval approve " + view.Approval)
	if err != nil {
		return err
	}
	defer p.leave()
	_, err = e.decideOne(ctx, service, p, asked, true, "")
	return err
}

// installed is the answer of an install with --apply.
type installed struct {
	api.PlanOutcome
	Commands []string `json:"commands"` // of the service manager
	Ran      bool     `json:"ran"`
}

func (e *Env) applyService(ctx context.Context, service api.Service, view api.PlanView, in api.InstallService, enable bool) error {
	out, err := service.ApplyPlan(e.operation(ctx), api.ApplyPlan{Plan: view.ID})
	if err != nil {
		return err
	}
	s := converge.Service{Manager: in.Manager, Home: in.Home, Config: in.Config}
	commands := s.Start()
	if in.Remove {
		commands = s.Stop()
	}
	answer := installed{PlanOutcome: out, Ran: enable}
	for _, command := range commands {
		answer.Commands = append(answer.Commands, strings.Join(command, " "))
		if enable {
			if err := e.runManager(ctx, command); err != nil {
				return err
			}
		}
	}
	return e.Show(answer, func(w io.Writer) {
		line(w, "Applied: %s", plain(out.Plan.Summary))
		e.receiptText(w, out.Receipt)
		if enable {
			list(w, "The service manager was told:", answer.Commands)
		} else {
			list(w, "Now run:", answer.Commands)
		}
		e.next(w, out.Next)
	})
}

// runManager runs one command of the service manager.
func (e *Env) runManager(ctx context.Context, command []string) error {
	text := strings.Join(command, " ")
	file, err := process.Resolve(command[0], "/", os.Environ())
	if err != nil {
		return err
	}
	status, err := process.Foreground(ctx, process.Command{File: file, Argv: command, Dir: "/", Env: os.Environ()}, os.Stdin, os.Stderr)
	if err != nil {
		return err
	}
	if status.Code != 0 || status.Signal != 0 {
		return fault.New(fault.Unavailable, "service-manager").Saying("the file is written, but `%s` ended with %s", text, status).
			Hinting("run it by hand to see why; `mcpx daemon install-user-service --remove --apply` takes the file back")
	}
	return nil
}
