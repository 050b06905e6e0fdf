package org.ep4j.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;
import org.ep4j.DispatchOptions;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.cases.CaseDirectory;
import org.ep4j.cases.CaseFile;
import org.ep4j.cases.CaseMetadata;
import org.ep4j.config.Layout;
import org.ep4j.conformance.RecordedDispatch.RecordedCombine;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.ep4j.verify.CombineOracle;
import org.ep4j.verify.CombineOracle.Terms;
import org.ep4j.verify.HighThroughputOracle;
import org.ep4j.verify.HighThroughputOracle.Blocks;
import org.ep4j.verify.HighThroughputOracle.Payload;
import org.ep4j.verify.LowLatencyOracle;
import org.ep4j.verify.Rows;
import org.ep4j.verify.WorldRouting;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** The oracle against recorded inputs and outputs, without any engine of this library. */
class OracleAgreesWithVectorsTest {
  @TestFactory
  Stream<DynamicTest> onEveryCase() {
    return Vectors.tests(OracleAgreesWithVectorsTest::check);
  }

  private static void check(CaseDirectory directory) {
    List<CaseFile> files = new ArrayList<>();
    try {
      for (int rank = 0; rank < directory.ranks(); rank++) {
        files.add(directory.read(rank));
      }
      CaseMetadata metadata = directory.metadata();
      WorldRouting world =
          WorldRouting.of(
              ExpertPlacement.blocks(metadata.experts(), directory.ranks()),
              files.stream()
                  .map(file -> new Routing(file.tensor("topk_idx"), file.find("topk_weights")))
                  .toList());
      if (metadata.lowLatency()) {
        checkLowLatency(files, metadata, world);
      } else {
        checkHighThroughput(files, metadata, world);
      }
    } finally {
      files.forEach(CaseFile::close);
    }
  }

  private static Rows rows(List<CaseFile> files, String name) {
    return Rows.of(files.stream().map(file -> file.tensor(name)).toList());
  }

  private static void checkHighThroughput(
      List<CaseFile> files, CaseMetadata metadata, WorldRouting world) {
    Tensor scales = files.getFirst().find("x_scales");
    Payload payload =
        new Payload(
            files.getFirst().tensor("x").dtype(),
            metadata.hidden(),
            rows(files, "x"),
            scales == null
                ? null
                : new Blocks(scales.dtype(), (int) scales.size(1), rows(files, "x_scales")),
            null);
    DispatchOptions options =
        DispatchOptions.builder().expertAlignment(metadata.expertAlignment()).build();
    Terms terms =
        new Terms(
            DType.BF16,
            metadata.hidden(),
            rows(files, "expert_out"),
            true,
            false,
            null,
            null,
            rows(files, "recv_topk_weights"));
    CombineOracle combine = new CombineOracle(world, Layout.FLAT, metadata.expertAlignment());
    HighThroughputOracle dispatch = new HighThroughputOracle(world);
    for (int rank = 0; rank < files.size(); rank++) {
      CaseFile file = files.get(rank);
      dispatch.checkDispatch(
          rank, Layout.FLAT, new RecordedDispatch(file, rank, files), payload, options);
      combine.checkCombine(rank, new RecordedCombine(file), terms);
    }
  }

  private static void checkLowLatency(
      List<CaseFile> files, CaseMetadata metadata, WorldRouting world) {
    List<RecordedLowLatency> recorded = files.stream().map(RecordedLowLatency::new).toList();
    LowLatencyOracle oracle = new LowLatencyOracle(world, metadata.maxTokens(), metadata.hidden());
    LowLatencyDispatchOptions options =
        LowLatencyDispatchOptions.builder()
            .format(metadata.format())
            .scaleKind(metadata.scaleKind())
            .build();
    Rows y = (rank, slot) -> recorded.get(rank).expertRow(slot);
    for (int rank = 0; rank < files.size(); rank++) {
      oracle.checkDispatch(rank, recorded.get(rank), rows(files, "x"), options);
      Tensor sums = Objects.requireNonNull(files.get(rank).find("combined_x"));
      assertThat(sums.dtype()).isEqualTo(DType.BF16);
      oracle.checkCombine(rank, sums, y, world, LowLatencyCombineOptions.DEFAULT);
    }
  }
}
