package org.ep4j.conformance;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.conformance.round.VerifiedRound;
import org.ep4j.conformance.world.RankJob;
import org.ep4j.group.Group;

/**
 * Buffers with several backends in one process, open at the same time, used in rotation and
 * verified, closed in a different order each time, and opened again. Arguments: the backends.
 */
public final class SeveralBuffersJob implements RankJob {
  private static final int TIMES = 3;

  /** Used by reflection. */
  public SeveralBuffersJob() {}

  @Override
  public void run(Group group, List<String> arguments) {
    for (int time = 0; time < TIMES; time++) {
      List<ExpertBuffer> buffers = new ArrayList<>();
      try {
        for (String backend : arguments) {
          buffers.add(ExpertBuffer.open(group, config(backend)));
        }
        for (ExpertBuffer buffer : buffers) {
          VerifiedRound.operate(buffer, 10L * time + 1, -1);
          VerifiedRound.operate(buffer, 10L * time + 2, -1);
        }
        Collections.rotate(buffers, time);
      } finally {
        buffers.forEach(ExpertBuffer::close);
      }
    }
  }

  private static BufferConfig config(String backend) {
    return VerifiedRound.shape(BufferConfig.builder(), true)
        .engine(EngineName.CUDA)
        .backend(backend)
        .build();
  }
}
