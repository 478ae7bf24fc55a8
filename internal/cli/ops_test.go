package cli

import (
	"testing"

	"mcpx/internal/api"
)

// noCommand lists the rows of api.Ops that no command carries out, with the reason.
var noCommand = map[string]string{
	"hub.status":      "asked by agents, as tools of mcp_hub; people have `mcpx status`",
	"hub.plans":       "asked by agents; people have `mcpx plan list`",
	"hub.plan":        "asked by agents; people have `mcpx plan show`",
	"hub.entry":       "asked by agents; people have `mcpx catalog export --as AGENT`",
	"hub.runtime":     "asked by agents; people have `mcpx ps`",
	"hub.credentials": "asked by agents; people have `mcpx credential list`",
	"hub.catalog":     "asked by agents; people have `mcpx catalog search`",
	"trust.show":      "`mcpx project trust` shows before it asks, and with --json it only shows",
	"catalog.link":    "mcpx catalog review --link",
	"catalog.tools":   "mcpx catalog review --tools",
	"catalog.accept":  "mcpx catalog review --tools",
	"agent.set":       "`mcpx agents discover` sets the level with its flags",
	"plans.apply":     "`mcpx apply` with several plans or with --all",
	"workspace.plan":  "`mcpx workspace integrate --plan`",
	"receipt.list":    "`mcpx rollback` without a receipt lists them",
}

func TestEveryOpHasACommand(t *testing.T) {
	by := map[string]string{}
	for _, c := range commands() {
		if c.Op == "" {
			continue
		}
		if _, ok := api.Find(c.Op); !ok {
			t.Errorf("%s carries out %s, which is not in the table", c.Path, c.Op)
		}
		by[c.Op] = c.Path
	}
	for _, op := range api.Ops {
		if by[op.Name] == "" && noCommand[op.Name] == "" {
			t.Errorf("%s has no command and no reason in noCommand", op.Name)
		}
	}
}
