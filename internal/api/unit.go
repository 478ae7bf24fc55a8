package api

import "mcpx/internal/converge"

// InstallService asks for the plan that makes the daemon a service of its user, or takes that back.
type InstallService struct {
	Manager converge.Manager `json:"manager"`           // of the system that the caller runs on
	Program string           `json:"program,omitempty"` // absolute path of the mcpx to start; "" that of the daemon
	Home    string           `json:"home"`              // of the user, absolute
	Config  string           `json:"config,omitempty"`  // XDG_CONFIG_HOME, absolute
	State   string           `json:"state,omitempty"`   // MCPX_HOME, absolute; "" the usual places
	Log     string           `json:"log,omitempty"`     // file for what launchd does not keep
	Remove  bool             `json:"remove,omitempty"`  // take back what was installed
}
