package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	windlass "github.com/windlass/windlass/sdk/go"
)

type parcel struct {
	Parcel string `json:"parcel"`
}

func label(ctx context.Context, in parcel) (string, error) {
	windlass.Logger(ctx).Info("printing the label")
	return "label for a " + in.Parcel, nil
}

func main() {
	worker, err := windlass.NewWorker(windlass.WorkerOptions{Queues: []string{"go"}})
	if err != nil {
		log.Fatal(err)
	}
	windlass.Handle(worker, "shop.label.v1", label)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
