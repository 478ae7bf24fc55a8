// Package rig decides how tests drive the real program: it builds the binary once, starts daemons with a home and a
// port of their own, speaks raw HTTP to them, and looks afterwards for processes left behind. It refuses to know what
// the gateway promises; the tests that use it do.
//
// Invariant: everything that a Gateway started is gone when its test has ended, or the test has failed.
package rig
