package storetest

import "testing"

func TestModel(t *testing.T) {
	Exercise(t, func(*testing.T) Pair {
		m := NewModel()
		return Pair{Write: m, Read: m}
	})
}
