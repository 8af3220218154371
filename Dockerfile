# `ipl serve` on a CPU, with the prompt in /model; docs/serving.md says how to run it.
FROM python:3.12-slim

# Behind a mirror, give its addresses with --build-arg; pip reads the second from the environment.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ARG PIP_INDEX_URL=https://pypi.org/simple

# torch's own index has a build without CUDA, which is some gigabytes smaller.
ARG TORCH=2.13.0
RUN pip install --no-cache-dir --no-deps torch==${TORCH} --index-url ${TORCH_INDEX}

# The versions of requirements.txt, which has the hashes of far more than the service needs.
WORKDIR /source
COPY pyproject.toml requirements.txt README.md LICENSE NOTICE ./
COPY src ./src
RUN grep -o '^[A-Za-z0-9].*==[^\\]*' requirements.txt > versions.txt \
    && pip install --no-cache-dir -c versions.txt '.[serve]'

RUN useradd --create-home --uid 10001 ipl
USER ipl
WORKDIR /home/ipl
ENV PYTHONUNBUFFERED=1

EXPOSE 8000
# /healthz needs no token; any status but 200 raises an error.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
ENTRYPOINT ["ipl", "serve", "/model", "--host", "0.0.0.0", "--port", "8000", "--device", "cpu"]
