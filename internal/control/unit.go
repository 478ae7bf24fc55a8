package control

import (
	"context"
	"path/filepath"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
	"mcpx/internal/fault"
	"mcpx/internal/store"
)

// InstallService makes the plan that writes or takes back the description of the service. It is approved and applied
// like every plan.
func (c *Control) InstallService(ctx context.Context, in api.InstallService) (api.PlanView, error) {
	if err := c.allow(ctx, "service.install"); err != nil {
		return api.PlanView{}, err
	}
	s := converge.Service{Manager: in.Manager, Program: in.Program, Home: in.Home, Config: in.Config, State: in.State, Log: in.Log}
	if s.Program == "" {
		s.Program = c.cfg.Program
	}
	if s.Manager != converge.Systemd && s.Manager != converge.Launchd {
		return api.PlanView{}, fault.New(fault.Invalid, "request-invalid").Saying("%q is no service manager", s.Manager).Hinting("name systemd or launchd")
	}
	for _, path := range []string{s.Program, s.Home, s.Config, s.State, s.Log} {
		if path != "" && !filepath.IsAbs(path) || s.Home == "" {
			return api.PlanView{}, fault.New(fault.Invalid, "request-invalid").Saying("%q is no absolute path", path)
		}
	}
	if in.Remove {
		return c.removeService(ctx, s)
	}
	proposal, err := converge.InstallService(s)
	if err != nil {
		return api.PlanView{}, err
	}
	c.files.Lock()
	defer c.files.Unlock()
	w, err := c.serviceWorld(ctx, s)
	if err != nil {
		return api.PlanView{}, err
	}
	return c.propose(ctx, w, proposal, fault.New(fault.Conflict, "service-installed").Saying("%s is as it should be already", s.Path()).
		Hinting("`mcpx daemon install-user-service --remove` takes it back"))
}

// serviceWorld is all that a plan for a file of no agent depends on.
func (c *Control) serviceWorld(ctx context.Context, s converge.Service) (converge.World, error) {
	w := converge.World{
		Policy: c.cfg.Policy(), Adapter: c.cfg.Adapter, Program: c.cfg.Program, Look: converge.Look{Home: s.Home}, Now: c.cfg.Now(),
	}
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		var err error
		w.Servers, err = catalog.All(ctx, r)
		return err
	})
	w.Revision = catalog.Revision(w.Servers)
	return w, err
}

// removeService takes the latest receipt back that wrote the file.
func (c *Control) removeService(ctx context.Context, s converge.Service) (api.PlanView, error) {
	var found string
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		for receipt, err := range converge.EachReceipt(ctx, r, converge.ListReceipts{State: converge.ReceiptApplied}) {
			if err != nil {
				return err
			}
			if receipt.Kind == converge.PlanService && len(receipt.Files) == 1 && receipt.Files[0].Path == s.Path() {
				found = receipt.ID
				return nil
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return api.PlanView{}, err
	case found == "":
		return api.PlanView{}, fault.New(fault.NotFound, "service-unknown").Saying("mcpx has not written %s", s.Path()).
			Hinting("if there is such a file, it was made by hand: remove it in the same way")
	}
	return c.RollBack(ctx, api.RollBack{Receipt: found})
}
