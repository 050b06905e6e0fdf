package org.ep4j.rdma.softverbs;

import java.util.List;
import org.ep4j.conformance.world.RankJob;
import org.ep4j.group.Group;

/** Opens port b0, connects it with a queue pair of the test, and stays until it is killed. */
public final class DeviceJob implements RankJob {
  static final String READY = "the address is ";

  /** Made by the process of a rank. */
  public DeviceJob() {}

  @Override
  public void run(Group group, List<String> arguments) throws InterruptedException {
    try (DeviceEnd end = new DeviceEnd("b0", DeviceEnd.READ_AND_WRITE)) {
      end.connect("a0", Integer.parseInt(arguments.getFirst()));
      System.out.println(READY + end.address().text());
      Thread.sleep(Long.MAX_VALUE);
    }
  }
}
