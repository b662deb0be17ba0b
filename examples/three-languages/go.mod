module windlass-example

go 1.23

require github.com/windlass/windlass/sdk/go v0.0.0

replace github.com/windlass/windlass/sdk/go => ../../sdk/go
