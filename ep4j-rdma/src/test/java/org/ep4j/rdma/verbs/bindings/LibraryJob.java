package org.ep4j.rdma.verbs.bindings;

import java.util.List;
import org.ep4j.conformance.world.RankJob;
import org.ep4j.group.Group;

/** Prints why the library cannot be used. */
public final class LibraryJob implements RankJob {
  /** Made by the process of a rank. */
  public LibraryJob() {}

  @Override
  public void run(Group group, List<String> arguments) {
    System.out.println("problem: " + VerbsLibrary.problem());
  }
}
