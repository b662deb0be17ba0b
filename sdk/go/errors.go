package windlass

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Kinds of errors, for [errors.Is].
var (
	// ErrInvalid: the request has a mistake; [Error.Field] and [Error.Problems] name it.
	ErrInvalid = errors.New("invalid request")
	// ErrUnauthorized: there is no key, or it is not valid.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrForbidden: the key lacks a scope.
	ErrForbidden = errors.New("forbidden")
	// ErrNotFound: [Error.What] with the key [Error.Key] does not exist.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the operation does not fit the present state.
	ErrConflict = errors.New("conflict")
	// ErrGone: the thing has ended or its time is over.
	ErrGone = errors.New("gone")
	// ErrRateLimited: too many requests, or a limit of the plan; [Error.RetryAfter] has the pause if there is one.
	ErrRateLimited = errors.New("rate limited")
	// ErrUnavailable: the server cannot be reached or cannot answer at the moment.
	ErrUnavailable = errors.New("unavailable")
)

var kinds = map[int]error{
	http.StatusBadRequest:            ErrInvalid,
	http.StatusUnauthorized:          ErrUnauthorized,
	http.StatusPaymentRequired:       ErrRateLimited,
	http.StatusForbidden:             ErrForbidden,
	http.StatusNotFound:              ErrNotFound,
	http.StatusConflict:              ErrConflict,
	http.StatusGone:                  ErrGone,
	http.StatusRequestEntityTooLarge: ErrInvalid,
	http.StatusUnsupportedMediaType:  ErrInvalid,
	http.StatusMisdirectedRequest:    ErrUnauthorized,
	http.StatusUnprocessableEntity:   ErrInvalid,
	http.StatusTooManyRequests:       ErrRateLimited,
	http.StatusBadGateway:            ErrUnavailable,
	http.StatusServiceUnavailable:    ErrUnavailable,
	http.StatusGatewayTimeout:        ErrUnavailable,
}

// Error is a request that failed: an answer with an error status, or no answer at all (Status 0).
type Error struct {
	// Status is the HTTP status, 0 if there was no answer.
	Status int
	// Detail is the sentence for people. Nothing should parse it.
	Detail string
	// Code is the machine-readable code, if there is one.
	Code string
	// What and Key name the thing that was not found.
	What, Key string
	// Field is the field of the request that is wrong.
	Field string
	// Hint is how to fix it.
	Hint string
	// Scope is the scope that the key lacks.
	Scope string
	// Problems are all mistakes of the request, if there are several.
	Problems []FieldProblem
	// RetryAfter is the pause that the server asks for.
	RetryAfter time.Duration

	cause error
}

// Error returns the sentence for people, with the hint.
func (e *Error) Error() string {
	if e.Hint != "" {
		return fmt.Sprintf("windlass: %s (%s)", e.Detail, e.Hint)
	}
	return "windlass: " + e.Detail
}

// Is reports whether the error is of a kind: ErrNotFound, ErrConflict and so on.
func (e *Error) Is(target error) bool {
	if e.Status == 0 || e.Status >= 500 {
		return target == ErrUnavailable
	}
	return target == kinds[e.Status]
}

// Unwrap returns the error of the transport if there was no answer.
func (e *Error) Unwrap() error { return e.cause }

// problem is the union of the two forms of error documents: problem documents of /api/v1, and {"error": ...} of /ojs/v1.
type problem struct {
	Detail string         `json:"detail"`
	Code   string         `json:"code"`
	What   string         `json:"what"`
	Key    string         `json:"key"`
	Field  string         `json:"field"`
	Hint   string         `json:"hint"`
	Scope  string         `json:"scope"`
	Errors []FieldProblem `json:"errors"`
	Error  *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Hint    string `json:"hint"`
		Details struct {
			Field string `json:"field"`
		} `json:"details"`
	} `json:"error"`
}

const maxShown = 200 // characters of a foreign answer in an error

// errorOf returns the error of an answer.
func errorOf(status int, header http.Header, body []byte, address string) *Error {
	failed := &Error{Status: status, RetryAfter: retryAfter(header)}
	var document problem
	err := json.Unmarshal(body, &document)
	switch {
	case err == nil && document.Error != nil:
		failed.Detail, failed.Code, failed.Hint = document.Error.Message, document.Error.Code, document.Error.Hint
		failed.Field = document.Error.Details.Field
	case err == nil && document.Detail != "":
		failed.Detail, failed.Code, failed.What, failed.Key = document.Detail, document.Code, document.What, document.Key
		failed.Field, failed.Hint, failed.Scope = document.Field, document.Hint, document.Scope
		failed.Problems = document.Errors
		if failed.Field == "" && len(document.Errors) > 0 {
			failed.Field = document.Errors[0].Field
		}
	default:
		failed.Detail = fmt.Sprintf("%s answered %d, and not as Windlass would", address, status)
		failed.Hint = "check the address"
		if text := strings.TrimSpace(string(body[:min(len(body), maxShown)])); text != "" {
			failed.Detail += ": " + text
		}
	}
	return failed
}

// unreachable returns the error of a request without an answer.
func unreachable(base string, cause error) *Error {
	return &Error{Detail: fmt.Sprintf("cannot reach the server at %s: %v", base, cause), cause: cause}
}

func retryAfter(header http.Header) time.Duration {
	seconds, err := strconv.ParseFloat(header.Get("Retry-After"), 64)
	if err != nil || seconds < 0 || seconds > 1e6 {
		return 0
	}
	return time.Duration(seconds * float64(time.Second))
}
