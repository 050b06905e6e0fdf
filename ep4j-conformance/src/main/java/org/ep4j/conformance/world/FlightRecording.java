package org.ep4j.conformance.world;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;

/**
 * A flight recording of this JVM, with windows at its start and end. It sees all of the JVM: no
 * other test with buffers may run.
 */
public final class FlightRecording implements AutoCloseable {
  private final Recording recording = new Recording();
  private List<RecordedEvent> events = List.of();

  /** Starts to record, with operations and waits of any length. */
  public FlightRecording() {
    this(Duration.ZERO);
  }

  /** Starts to record, with operations from {@code threshold} on and their waits. */
  public FlightRecording(Duration threshold) {
    recording.enable("org.ep4j.Operation").withThreshold(threshold);
    recording.enable("org.ep4j.Window").with("period", "everyChunk");
    recording.start();
  }

  /** Stops to record, and reads the events. */
  public void stop() {
    recording.stop();
    try {
      Path file = Files.createTempFile("events", ".jfr");
      try {
        recording.dump(file);
        events = RecordingFile.readAllEvents(file);
      } finally {
        Files.delete(file);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** The events {@code org.ep4j.NAME} before {@link #stop}, in the order of their starts. */
  public List<RecordedEvent> events(String name) {
    return events.stream()
        .filter(event -> event.getEventType().getName().equals("org.ep4j." + name))
        .sorted(Comparator.comparing(RecordedEvent::getStartTime))
        .toList();
  }

  @Override
  public void close() {
    recording.close();
  }
}
