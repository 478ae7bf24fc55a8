// Package atomicfile decides how bytes reach a name on disk so that a crash leaves the old file or the new one, and
// how a process owns a directory: by a kernel lock, never by a pid file. It refuses to know what the bytes mean.
//
// Invariant: when Write has returned nil, the new content is found under the name after a power cut.
package atomicfile
