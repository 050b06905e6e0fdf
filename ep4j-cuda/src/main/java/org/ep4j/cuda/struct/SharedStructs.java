package org.ep4j.cuda.struct;

import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** The declarations of all structures, which kernels include like files. */
public final class SharedStructs {
  static final List<Struct> ALL =
      List.of(
          new Control(),
          new ObservedWindows(),
          new Receipt(),
          new DispatchParameters(),
          new CombineParameters(),
          new LayoutParameters(),
          new RoutingCountsParameters(),
          new TransposeParameters(),
          new ScaleRowsParameters(),
          new ExpertIdsParameters(),
          new LowLatencyParameters(),
          new LowLatencyPutParameters(),
          new InternodePartner(),
          new InternodeWorld(),
          new InternodeTransport(),
          new QuiesceParameters(),
          new CommandRings(),
          new PutParameters(),
          new PutRun());

  private static final Map<String, String> DECLARATIONS =
      ALL.stream().collect(Collectors.toUnmodifiableMap(Struct::file, Struct::declaration));

  private SharedStructs() {}

  /**
   * The text of an include.
   *
   * @param file {@code structs/receipt.cuh}
   * @return null if no structure has this file
   */
  public static @Nullable String declaration(String file) {
    return DECLARATIONS.get(file);
  }
}
