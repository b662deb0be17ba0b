package windlass

import (
	"encoding/json"
	"fmt"
	"net/url"
)

// Ptr returns a pointer to a value, for parameters where zero and "not given" differ.
func Ptr[T any](value T) *T { return &value }

// Nullable is a parameter that can be set to null. A nil pointer leaves the field unchanged.
type Nullable[T any] struct{ value *T }

// Value returns a parameter with a value.
func Value[T any](value T) *Nullable[T] { return &Nullable[T]{&value} }

// Null returns a parameter that is null.
func Null[T any]() *Nullable[T] { return &Nullable[T]{} }

// MarshalJSON encodes the value, or null.
func (n *Nullable[T]) MarshalJSON() ([]byte, error) { return json.Marshal(n.value) }

// each returns the JSON fields of each item in a list of parameters.
func each[T any, P interface {
	*T
	fields() map[string]any
}](items []T) []map[string]any {
	encoded := make([]map[string]any, len(items))
	for n := range items {
		encoded[n] = P(&items[n]).fields()
	}
	return encoded
}

// segment escapes a value so that it is a single segment of a path.
func segment(value any) string { return url.PathEscape(fmt.Sprint(value)) }
