// Golden container: an accepted file re-encodes its envelope to the same map, and blobs lie inside it.
#include "fuzz/fuzz.h"
#include "golden/golden.h"

SLM_FUZZ_TARGET(data, size) {
  const slm::ByteSpan bytes(data, size);
  const auto golden = slm::golden::Golden::Open(bytes);
  if (!golden) {
    slm::fuzz::RequireOffset(golden.error(), size);
    return 0;
  }
  const auto map = slm::golden::EncodeContent((*golden)->content(), (*golden)->blobs());
  slm::fuzz::Require(slm::golden::EncodeContent((*golden)->content(), (*golden)->blobs()) == map,
                     "the same map twice");
  for (uint64_t i = 0; i < (*golden)->blobs().size(); ++i) {
    const slm::ByteSpan blob = (*golden)->BlobBytes(i);
    slm::fuzz::Require(blob.data() >= data && blob.data() + blob.size() <= data + size,
                       "a blob lies inside the file");
  }
  return 0;
}
