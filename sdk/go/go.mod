module github.com/windlass/windlass/sdk/go

go 1.23
