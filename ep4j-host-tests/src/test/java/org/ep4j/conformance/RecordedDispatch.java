package org.ep4j.conformance;

import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.ep4j.Combine;
import org.ep4j.DispatchHandle;
import org.ep4j.FlatDispatch;
import org.ep4j.cases.CaseFile;
import org.ep4j.error.ReceiveOverflowException;
import org.ep4j.execution.Event;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/**
 * Outputs of another implementation as a dispatch of this library. Outputs that the recording lacks
 * are computed from its {@code is_token_in_rank} tables.
 */
record RecordedDispatch(CaseFile file, int rank, List<CaseFile> all) implements FlatDispatch {
  @Override
  public long rows() {
    return x().size(0);
  }

  @Override
  public long receivedRows() {
    return rows();
  }

  @Override
  public Tensor x() {
    return file.tensor("recv_x");
  }

  @Override
  public boolean hasScales() {
    return file.find("recv_x_scales") != null;
  }

  @Override
  public Tensor scales() {
    return file.tensor("recv_x_scales");
  }

  @Override
  public boolean hasGlobalScales() {
    return false;
  }

  @Override
  public Tensor globalScales() {
    throw new IllegalStateException("no factors are recorded");
  }

  @Override
  public boolean hasChoices() {
    return true;
  }

  @Override
  public boolean hasWeights() {
    return file.find("recv_topk_weights") != null;
  }

  @Override
  public Tensor topkIdx() {
    return file.tensor("recv_topk_idx");
  }

  @Override
  public Tensor topkWeights() {
    return file.tensor("recv_topk_weights");
  }

  @Override
  public Tensor alignedCounts() {
    return file.tensor("num_recv_tokens_per_expert");
  }

  @Override
  public Tensor counts() {
    Tensor idx = topkIdx();
    int[] counts = new int[(int) alignedCounts().size(0)];
    for (long i = 0; i < idx.elements(); i++) {
      if (idx.getLong(i) >= 0) {
        counts[(int) idx.getLong(i)]++;
      }
    }
    return Tensor.of(counts, counts.length);
  }

  @Override
  public Tensor rankOffsets() {
    long[] offsets = new long[all.size() + 1];
    for (int[] source : sources()) {
      for (int r = source[0]; r < all.size(); r++) {
        offsets[r + 1]++;
      }
    }
    return Tensor.of(offsets, offsets.length);
  }

  @Override
  public Tensor sourceTokens() {
    return Tensor.of(sources().stream().mapToInt(source -> source[1]).toArray(), rows());
  }

  @Override
  public Tensor sourceRanks() {
    return Tensor.of(sources().stream().mapToInt(source -> source[0]).toArray(), rows());
  }

  private List<int[]> sources() {
    List<int[]> sources = new ArrayList<>();
    for (int s = 0; s < all.size(); s++) {
      Tensor table = all.get(s).tensor("is_token_in_rank");
      for (int t = 0; t < table.size(0); t++) {
        if (table.segment().get(ValueLayout.JAVA_BYTE, t * table.size(1) + rank) != 0) {
          sources.add(new int[] {s, t});
        }
      }
    }
    return sources;
  }

  @Override
  public Tensor combineInput(DType dtype) {
    throw new UnsupportedOperationException("recorded");
  }

  @Override
  public Optional<ReceiveOverflowException> overflow() {
    return Optional.empty();
  }

  @Override
  public DispatchHandle handle() {
    throw new UnsupportedOperationException("recorded");
  }

  @Override
  public Event event() {
    return Event.completed();
  }

  /** The recorded sums. */
  record RecordedCombine(CaseFile file) implements Combine {
    @Override
    public Tensor x() {
      return file.tensor("combined_x");
    }

    @Override
    public boolean hasWeights() {
      return file.find("combined_topk_weights") != null;
    }

    @Override
    public Tensor topkWeights() {
      return file.tensor("combined_topk_weights");
    }

    @Override
    public Event event() {
      return Event.completed();
    }
  }
}
