package org.ep4j.conformance.world;

import java.lang.System.Logger.Level;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;

/** What this process logs while this object is open. Lines of any thread. */
public final class LogLines implements AutoCloseable {
  /** A line as a user reads it. */
  public record Line(Level level, String text) {}

  // A field, because the log manager would drop a logger that nothing refers to.
  private final Logger logger;
  private final List<Line> lines = new CopyOnWriteArrayList<>();
  private final Handler collector =
      new Handler() {
        private final SimpleFormatter formatter = new SimpleFormatter();

        @Override
        public void publish(LogRecord line) {
          int severity = line.getLevel().intValue();
          for (Level level : Level.values()) {
            if (level.getSeverity() == severity) {
              lines.add(new Line(level, formatter.formatMessage(line)));
            }
          }
        }

        @Override
        public void flush() {
          // Nothing is kept back.
        }

        @Override
        public void close() {
          // Nothing is open.
        }
      };

  /**
   * @param logger name of the logger
   */
  public LogLines(String logger) {
    this.logger = Logger.getLogger(logger);
    this.logger.addHandler(collector);
  }

  /** The lines so far. */
  public List<Line> lines() {
    return List.copyOf(lines);
  }

  @Override
  public void close() {
    logger.removeHandler(collector);
  }
}
