package inbox

import (
	"strconv"
	"strings"
	"time"
)

// array is an array parameter. It is sent as a string with an array literal, because every driver supports strings.
type array struct {
	values  []string
	builder strings.Builder
}

func (a *array) add(value string) {
	a.values = append(a.values, value)
	a.next()
	a.builder.WriteByte('"')
	for {
		at := strings.IndexAny(value, `"\`)
		if at < 0 {
			break
		}
		a.builder.WriteString(value[:at])
		a.builder.WriteByte('\\')
		a.builder.WriteByte(value[at])
		value = value[at+1:]
	}
	a.builder.WriteString(value)
	a.builder.WriteByte('"')
}

func (a *array) addNull() {
	a.values = append(a.values, "")
	a.next()
	a.builder.WriteString("NULL")
}

func (a *array) next() {
	if a.builder.Len() == 0 {
		a.builder.WriteByte('{')
	} else {
		a.builder.WriteByte(',')
	}
}

func (a *array) addOptional(value string) {
	if value == "" {
		a.addNull()
	} else {
		a.add(value)
	}
}

func (a *array) addInt(value int) { a.add(strconv.Itoa(value)) }

func (a *array) addBool(value bool) { a.add(strconv.FormatBool(value)) }

func (a *array) addTime(value time.Time) {
	if value.IsZero() {
		a.addNull()
	} else {
		a.add(value.UTC().Format(time.RFC3339Nano))
	}
}

// addSeconds adds a duration, or null.
func (a *array) addSeconds(value *time.Duration) {
	if value == nil {
		a.addNull()
	} else {
		a.add(strconv.FormatFloat(value.Seconds(), 'f', 6, 64))
	}
}

func (a *array) text() string {
	if a.builder.Len() == 0 {
		return "{}"
	}
	return a.builder.String() + "}"
}

func arrayOf(values []string) string {
	var a array
	for _, value := range values {
		a.add(value)
	}
	return a.text()
}
