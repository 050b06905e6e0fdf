package org.ep4j.engine;

import org.ep4j.BufferConfig;
import org.ep4j.BufferSizes;
import org.ep4j.ExpertBuffer;
import org.ep4j.group.Group;

/** An engine, found through {@link java.util.ServiceLoader}. Implementations are stateless. */
public interface EngineProvider {
  /** Name as in {@link BufferConfig#engine()}. */
  String name();

  /** Order of automatic choice: the available engine with the highest value wins. */
  int priority();

  /** Empty if the engine can run here; otherwise what was looked for, where, and what helps. */
  String unavailableBecause();

  /**
   * Empty if the engine has all operations that a buffer of {@code config} is for; otherwise what
   * it lacks. An automatic choice then falls on another engine.
   */
  default String lacks(BufferConfig config) {
    return "";
  }

  /** What a buffer would reserve on each rank. The placement of {@code config} is settled. */
  BufferSizes sizes(BufferConfig config);

  /** Opens a buffer; collective. The placement of {@code config} is settled. */
  ExpertBuffer open(Group group, BufferConfig config);

  /**
   * Opens the buffer of a rank that comes back; collective with {@link ExpertBuffer#readmit} on the
   * others. The placement of {@code config} is settled, and the ranks are processes.
   */
  ExpertBuffer rejoin(Group group, BufferConfig config);
}
