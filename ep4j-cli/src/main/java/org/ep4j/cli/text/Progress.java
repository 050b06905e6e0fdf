package org.ep4j.cli.text;

import java.io.PrintStream;
import java.util.concurrent.TimeUnit;

/**
 * A progress line on standard error. It appears after a second, so short work shows none, and only
 * on a terminal. A process whose output is relayed to a terminal by its parent sends marked lines
 * instead. Thread-safe.
 */
public final class Progress implements AutoCloseable {
  private static final long FIRST_NANOS = TimeUnit.SECONDS.toNanos(1);
  private static final long EVERY_MILLIS = 200;

  /** Variable with which a parent requests marked lines. */
  public static final String RELAY = "EP4J_RELAY_PROGRESS";

  /** Prefix of a marked line. */
  public static final String MARK = "\u0001progress ";

  private static final String ERASE = "\r\u001b[2K";

  private final PrintStream stream;
  private final boolean visible;
  private final boolean relayed;
  private final long start = System.nanoTime();

  /** Ctrl-C ends the process without {@link #close}: half a line would stay on the terminal. */
  private final Thread atExit = new Thread(this::end, "ep4j-erase-progress");

  private String now = "";
  private boolean drawn;
  private boolean closed;

  private Progress(PrintStream stream, boolean visible, boolean relayed) {
    this.stream = stream;
    this.visible = visible;
    this.relayed = relayed;
    if (visible) {
      Thread.ofPlatform().daemon().name("progress").start(this::drawRepeatedly);
      Runtime.getRuntime().addShutdownHook(atExit);
    }
  }

  /** A line on standard error, if this is a terminal. */
  public static Progress start() {
    boolean relayed = System.getenv(RELAY) != null;
    return new Progress(System.err, !relayed && Terminal.standardError(), relayed);
  }

  /** No line. */
  public static Progress silent() {
    return new Progress(System.err, false, false);
  }

  /** Reports the step that begins. */
  public synchronized void at(String text) {
    now = text;
    if (closed) {
      return;
    }
    if (relayed) {
      stream.println(MARK + text);
    } else if (drawn) {
      draw();
    }
  }

  /** Erases the line, runs {@code writing} for output of the caller, and prints the line again. */
  public synchronized void above(Runnable writing) {
    erase();
    writing.run();
  }

  /** Whether the line is visible. */
  public boolean visible() {
    return visible;
  }

  private void drawRepeatedly() {
    while (true) {
      try {
        Thread.sleep(EVERY_MILLIS);
      } catch (InterruptedException e) {
        return;
      }
      synchronized (this) {
        if (closed) {
          return;
        }
        if (System.nanoTime() - start > FIRST_NANOS) {
          draw();
        }
      }
    }
  }

  private void draw() {
    if (visible && !closed && !now.isEmpty()) {
      long seconds = TimeUnit.NANOSECONDS.toSeconds(System.nanoTime() - start);
      stream.print(ERASE + now + " (" + seconds + " s)");
      stream.flush();
      drawn = true;
    }
  }

  private void erase() {
    if (drawn) {
      stream.print(ERASE);
      stream.flush();
      drawn = false;
    }
  }

  private synchronized void end() {
    erase();
    closed = true;
  }

  /** Removes the line. */
  @Override
  public void close() {
    end();
    if (visible) {
      try {
        Runtime.getRuntime().removeShutdownHook(atExit);
      } catch (IllegalStateException e) {
        // The JVM is shutting down: its shutdown hook does the same.
      }
    }
  }
}
