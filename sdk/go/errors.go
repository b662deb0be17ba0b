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
	// ErrInvalid means that the request is invalid: [Error.Field] and [Error.Problems] name the fields.
	ErrInvalid = errors.New("invalid request")
	// ErrUnauthorized means that the request has no valid key.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrForbidden means that the key lacks a scope.
	ErrForbidden = errors.New("forbidden")
	// ErrNotFound means that the object does not exist: [Error.What] is its kind, [Error.Key] its id or name.
	ErrNotFound = errors.New("not found")
	// ErrConflict means that the current state of the object does not allow the operation.
	ErrConflict = errors.New("conflict")
	// ErrGone means that the object has ended or expired.
	ErrGone = errors.New("gone")
	// ErrRateLimited means that there were too many requests, or that a limit of the plan is reached.
	// [Error.RetryAfter] is the delay after which to retry, if the server sent one.
	ErrRateLimited = errors.New("rate limited")
	// ErrUnavailable means that the server could not be reached or could not process the request.
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

// Error is the error of a failed request: a response with an error status, or no response at all (Status 0).
type Error struct {
	// Status is the HTTP status, 0 if there was no response.
	Status int
	// Detail is the message for people. Programs should not parse it.
	Detail string
	// Code is the machine-readable code, if there is one.
	Code string
	// What and Key are the kind and the id or name of the object that was not found.
	What, Key string
	// Field is the first invalid field of the request.
	Field string
	// Hint is how to fix the problem.
	Hint string
	// Scope is the scope that the key lacks.
	Scope string
	// Problems are all invalid fields of the request with their messages.
	Problems []FieldProblem
	// RetryAfter is the delay before a retry that the server requested, 0 if none.
	RetryAfter time.Duration

	cause error
}

// Error returns the message for people, with the hint.
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

// Unwrap returns the error of the transport if there was no response.
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

const maxShown = 200 // bytes of a response in an unknown format that its error contains

// errorOf returns the error for a response with an error status.
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
		failed.Detail = fmt.Sprintf("%s answered %d, which is not a response of Windlass", address, status)
		failed.Hint = "check the address"
		if text := strings.TrimSpace(string(body[:min(len(body), maxShown)])); text != "" {
			failed.Detail += ": " + text
		}
	}
	return failed
}

// unreachable returns the error for a request without a response.
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
